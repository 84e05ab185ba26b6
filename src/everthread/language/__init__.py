"""Pure: what a text says. Words, sentences, entities, statements, facts, extracts, and their ranking."""
