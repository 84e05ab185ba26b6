"""The agent loop. Read `turn` first: what happens from a message until the agent is idle again."""
