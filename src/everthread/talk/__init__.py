"""A conversation, and all that can be done with it."""

from everthread.talk.talk import Talk

__all__ = ["Talk"]
