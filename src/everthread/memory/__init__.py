"""What is remembered of a conversation: briefs, recaps, summaries, names. Read `due` first, then
`brief`; `branch` is what they share."""
