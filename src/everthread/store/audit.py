"""Where it is logged that somebody reads across the walls between users, or makes the log forget."""

from __future__ import annotations

import logging

audit = logging.getLogger("everthread.audit")
