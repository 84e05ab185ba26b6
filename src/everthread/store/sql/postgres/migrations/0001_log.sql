-- The log of conversations. See schema.sql, which these migrations add up to.

CREATE TABLE everthread_migrations (
    version INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL,
    time    BIGINT  NOT NULL
);

CREATE TABLE conversations (
    tenant       TEXT    COLLATE "C" NOT NULL,
    conversation TEXT    COLLATE "C" NOT NULL,
    "user"       TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    goal         TEXT    NOT NULL,
    settings     TEXT    NOT NULL,
    current      INTEGER NOT NULL,
    time         BIGINT  NOT NULL,
    erased       BIGINT,
    PRIMARY KEY (tenant, conversation)
);

CREATE INDEX conversations_by_user ON conversations (tenant, "user", conversation);
CREATE INDEX conversations_by_agent ON conversations (tenant, "user", agent, conversation);

CREATE TABLE branches (
    tenant       TEXT    COLLATE "C" NOT NULL,
    conversation TEXT    COLLATE "C" NOT NULL,
    branch       INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    parent       INTEGER,
    at           INTEGER NOT NULL,
    time         BIGINT  NOT NULL,
    PRIMARY KEY (tenant, conversation, branch),
    UNIQUE (tenant, conversation, name),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
);

CREATE TABLE events (
    time            BIGINT  NOT NULL,
    spoken_time     BIGINT  NOT NULL,
    cleared_sum     BIGINT  NOT NULL,
    tokens_before   BIGINT  NOT NULL,
    settled_before  BIGINT  NOT NULL,
    messages_before INTEGER NOT NULL,
    branch          INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    turn            INTEGER NOT NULL,
    turn_first      INTEGER NOT NULL,
    pending         INTEGER NOT NULL,
    session         INTEGER NOT NULL,
    session_first   INTEGER NOT NULL,
    spoken          INTEGER NOT NULL,
    cleared         INTEGER NOT NULL,
    tokens          INTEGER NOT NULL,
    settled         INTEGER NOT NULL,
    tenant          TEXT    COLLATE "C" NOT NULL,
    conversation    TEXT    COLLATE "C" NOT NULL,
    id              TEXT    COLLATE "C" NOT NULL,
    kind            TEXT    COLLATE "C" NOT NULL,
    state           TEXT    COLLATE "C" NOT NULL,
    body            BYTEA   NOT NULL,
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
);

CREATE UNIQUE INDEX events_by_seq ON events (tenant, conversation, branch, seq);
CREATE INDEX events_turns ON events (tenant, conversation, branch, settled_before, seq) WHERE turn_first = seq;
CREATE INDEX events_sessions ON events (tenant, conversation, branch, session) WHERE session_first = seq;
CREATE INDEX events_markers ON events (tenant, conversation, branch, kind, seq) WHERE spoken <> seq;

CREATE TABLE receipts (
    tenant       TEXT    COLLATE "C" NOT NULL,
    conversation TEXT    COLLATE "C" NOT NULL,
    key          TEXT    COLLATE "C" NOT NULL,
    branch       INTEGER NOT NULL,
    first        INTEGER NOT NULL,
    last         INTEGER NOT NULL,
    hash         TEXT    COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, conversation, key),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
);

CREATE TABLE blobs (
    tenant       TEXT COLLATE "C" NOT NULL,
    conversation TEXT COLLATE "C" NOT NULL,
    hash         TEXT COLLATE "C" NOT NULL,
    data         BYTEA NOT NULL,
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
);

CREATE UNIQUE INDEX blobs_by_hash ON blobs (tenant, conversation, hash);

CREATE TABLE blob_uses (
    tenant       TEXT    COLLATE "C" NOT NULL,
    conversation TEXT    COLLATE "C" NOT NULL,
    hash         TEXT    COLLATE "C" NOT NULL,
    branch       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, hash, branch, seq),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch),
    FOREIGN KEY (tenant, conversation, hash) REFERENCES blobs (tenant, conversation, hash)
);
