-- What the agent needs beside the log: leases, documents with their versions, calibrations, and the figures of model
-- calls. No version before this one wrote `model_call` events, so there are none to be counted.

-- Who may do something alone, and until when. These rows move: a lease is taken, renewed, taken over once it has run
-- out, and released.
CREATE TABLE leases (
    tenant TEXT    NOT NULL,
    name   TEXT    NOT NULL,
    holder TEXT    NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID, STRICT;

-- Texts with their versions, which only grow; the user '' is the tenant itself. A body is bytes for the reason that
-- an event's is: it may hold what no text of a database can.
CREATE TABLE documents (
    tenant  TEXT    NOT NULL,
    user    TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    time    INTEGER NOT NULL,
    PRIMARY KEY (tenant, user, name, version)
) STRICT;

-- How often the usage of a model was so many twentieths of the canonical size. These rows move: counts grow.
CREATE TABLE calibrations (
    model TEXT    NOT NULL,
    step  INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (model, step)
) WITHOUT ROWID, STRICT;

-- What the `model_call` events say in figures, written with them, so that totals read no bodies. Only grows.
CREATE TABLE model_calls (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    user         TEXT    NOT NULL,
    turn         INTEGER NOT NULL,
    session      INTEGER NOT NULL,
    time         INTEGER NOT NULL,
    model        TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    input        INTEGER NOT NULL,
    output       INTEGER NOT NULL,
    cache_read   INTEGER NOT NULL,
    cache_write  INTEGER NOT NULL,
    reasoning    INTEGER NOT NULL,
    price        REAL,
    ms           INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, branch, seq),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
) WITHOUT ROWID, STRICT;

CREATE INDEX model_calls_by_user ON model_calls (tenant, user, time);
