"""The log and the databases that hold it."""
