-- Histories of other programs that were imported: by a keyed hash of each, so that the same file twice adds nothing.
-- Erasing a conversation removes its row.
CREATE TABLE imports (
    tenant       TEXT NOT NULL,
    user         TEXT NOT NULL,
    source       TEXT NOT NULL,
    conversation TEXT NOT NULL,
    PRIMARY KEY (tenant, user, source),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
) WITHOUT ROWID, STRICT;

CREATE INDEX imports_by_conversation ON imports (tenant, conversation);

-- The folders that mirror this store (transfer.mirror), each with the mark that it carries, and where it was seen last.
CREATE TABLE mirrors (
    mirror TEXT    NOT NULL PRIMARY KEY,
    folder TEXT    NOT NULL,
    seen   INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- Conversations of which something was forgotten that a mirror may still hold. Written with what is forgotten, for every
-- mirror; gone once that mirror has followed.
CREATE TABLE mirrors_owe (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    mirror       TEXT    NOT NULL,
    time         INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, mirror, time)
) WITHOUT ROWID, STRICT;

CREATE INDEX mirrors_owe_by_mirror ON mirrors_owe (mirror, time);
