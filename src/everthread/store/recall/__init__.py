"""Recall: the index of what was said, and searching it."""
