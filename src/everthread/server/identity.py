"""Who calls the service, without HTTP: `Identity(log)`.

    coming in    first  link  use_link  sign_in  enter  entered  any_password
    being in     caller_of_sign_in  caller_of_key  csrf  csrf_fits
    going out    sign_out  sign_out_everywhere  set_password
    keys         make_key  keys  revoke_key
    users        users  user  invite  disable  enable  change_role  erase  audit

Every verb that is asked for by somebody takes the `Caller` who asks, and raises Forbidden where that one may not. The
command line asks as `operator(tenant)`. What administrators and operators do is written into the audit in the same
transaction as what it is. No secret is in an error or a log, and none is stored: tokens as SHA-256 of 256 bits of
chance, passwords as argon2id.
"""

from __future__ import annotations

from everthread.core.accounts import Caller as Caller
from everthread.core.accounts import operator as operator
from everthread.server.api_keys import Keys
from everthread.server.api_keys import MadeKey as MadeKey
from everthread.server.sign_ins import SignedIn as SignedIn
from everthread.server.users import Users


class Identity(Users, Keys):
    """Accounts, sign-ins and API keys of a store; one for a process."""
