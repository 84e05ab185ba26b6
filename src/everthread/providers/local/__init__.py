"""The model in the process: its client, its files and what it is told."""
