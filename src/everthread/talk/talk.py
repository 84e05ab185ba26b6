"""A conversation, and all that can be done with it.

A `Talk` reads and writes the conversation's current branch, wherever that points at the moment, unless it was made for
one branch (`talk.on("main")`, or what `fork` returns). Its verbs lie in this folder by subject.
"""

from everthread.talk.branching import Branching
from everthread.talk.delegating import Delegating
from everthread.talk.forgetting import Forgetting
from everthread.talk.reading import Reading
from everthread.talk.remembering import Remembering
from everthread.talk.scheduling import Scheduling
from everthread.talk.seeing import Seeing
from everthread.talk.showing import Showing
from everthread.talk.speaking import Speaking
from everthread.talk.writing import Writing


class Talk(Speaking, Seeing, Showing, Reading, Writing, Branching, Delegating, Scheduling, Remembering, Forgetting):
    """A conversation, on its current branch or on one that was chosen."""
