"""The bus between the processes that share a store."""
