"""Archives: conversations that have long been idle move out of the database into files, and come back identical.

Read first: `move` (out and back, in which order), then `pack` (the file), `places` (where files are), `keys`
(encryption), `catalogue` (what is listed without opening files).
"""
