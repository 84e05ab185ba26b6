-- What nobody is told, made once with the store and never again: of it comes the fence (core.fence). It leaves the store
-- with a copy of the whole only; no export has it.
CREATE TABLE secrets (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID, STRICT;

INSERT INTO secrets (name, value) VALUES ('fence', randomblob(32));
