"""What is made beside the conversation: briefs, recaps, range summaries and names. Read `worker` first."""
