"""What is remembered of a conversation: briefs, recaps, summaries, names. Read `make` first, then `due`."""
