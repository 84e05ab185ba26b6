-- The log of conversations. See schema.sql, which these migrations add up to.

CREATE TABLE everthread_migrations (
    version INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL,
    time    INTEGER NOT NULL
) STRICT;

CREATE TABLE conversations (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    user         TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    goal         TEXT    NOT NULL,
    settings     TEXT    NOT NULL,
    current      INTEGER NOT NULL,
    time         INTEGER NOT NULL,
    erased       INTEGER,
    PRIMARY KEY (tenant, conversation)
) WITHOUT ROWID, STRICT;

CREATE INDEX conversations_by_user ON conversations (tenant, user, conversation);
CREATE INDEX conversations_by_agent ON conversations (tenant, user, agent, conversation);

CREATE TABLE branches (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    parent       INTEGER,
    at           INTEGER NOT NULL,
    time         INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, branch),
    UNIQUE (tenant, conversation, name),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
) WITHOUT ROWID, STRICT;

CREATE TABLE events (
    tenant          TEXT    NOT NULL,
    conversation    TEXT    NOT NULL,
    branch          INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    kind            TEXT    NOT NULL,
    time            INTEGER NOT NULL,
    turn            INTEGER NOT NULL,
    turn_first      INTEGER NOT NULL,
    state           TEXT    NOT NULL,
    pending         INTEGER NOT NULL,
    session         INTEGER NOT NULL,
    session_first   INTEGER NOT NULL,
    spoken          INTEGER NOT NULL,
    spoken_time     INTEGER NOT NULL,
    cleared         INTEGER NOT NULL,
    cleared_sum     INTEGER NOT NULL,
    tokens          INTEGER NOT NULL,
    settled         INTEGER NOT NULL,
    tokens_before   INTEGER NOT NULL,
    settled_before  INTEGER NOT NULL,
    messages_before INTEGER NOT NULL,
    body            BLOB    NOT NULL,
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
) STRICT;

CREATE UNIQUE INDEX events_by_seq ON events (tenant, conversation, branch, seq);
CREATE INDEX events_turns ON events (tenant, conversation, branch, settled_before, seq) WHERE turn_first = seq;
CREATE INDEX events_sessions ON events (tenant, conversation, branch, session) WHERE session_first = seq;
CREATE INDEX events_markers ON events (tenant, conversation, branch, kind, seq) WHERE spoken <> seq;

CREATE TABLE receipts (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    first        INTEGER NOT NULL,
    last         INTEGER NOT NULL,
    hash         TEXT    NOT NULL,
    PRIMARY KEY (tenant, conversation, key),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
) WITHOUT ROWID, STRICT;

CREATE TABLE blobs (
    tenant       TEXT NOT NULL,
    conversation TEXT NOT NULL,
    hash         TEXT NOT NULL,
    data         BLOB NOT NULL,
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
) STRICT;

CREATE UNIQUE INDEX blobs_by_hash ON blobs (tenant, conversation, hash);

CREATE TABLE blob_uses (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    hash         TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, hash, branch, seq),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch),
    FOREIGN KEY (tenant, conversation, hash) REFERENCES blobs (tenant, conversation, hash)
) WITHOUT ROWID, STRICT;
