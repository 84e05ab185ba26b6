"""Anthropic: its requests, its client, and its message lists."""
