"""A log in PostgreSQL."""
