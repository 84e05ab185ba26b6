"""What the log's verbs do, as scripts that every database runs: see `store.engine`."""
