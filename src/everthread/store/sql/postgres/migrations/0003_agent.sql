-- What the agent needs beside the log: leases, documents with their versions, calibrations, and the figures of model
-- calls. No version before this one wrote `model_call` events, so there are none to be counted.

-- Who may do something alone, and until when. These rows move: a lease is taken, renewed, taken over once it has run
-- out, and released.
CREATE TABLE leases (
    tenant TEXT    COLLATE "C" NOT NULL,
    name   TEXT    COLLATE "C" NOT NULL,
    holder TEXT    COLLATE "C" NOT NULL,
    until  BIGINT  NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- Texts with their versions, which only grow; the user '' is the tenant itself. A body is bytes for the reason that
-- an event's is: it may hold what no text of a database can.
CREATE TABLE documents (
    tenant  TEXT    COLLATE "C" NOT NULL,
    "user"  TEXT    COLLATE "C" NOT NULL,
    name    TEXT    COLLATE "C" NOT NULL,
    version INTEGER NOT NULL,
    body    BYTEA   NOT NULL,
    time    BIGINT  NOT NULL,
    PRIMARY KEY (tenant, "user", name, version)
);

-- How often the usage of a model was so many twentieths of the canonical size. These rows move: counts grow.
CREATE TABLE calibrations (
    model TEXT    COLLATE "C" NOT NULL,
    step  INTEGER NOT NULL,
    count BIGINT  NOT NULL,
    PRIMARY KEY (model, step)
);

-- What the `model_call` events say in figures, written with them, so that totals read no bodies. Only grows.
CREATE TABLE model_calls (
    time         BIGINT  NOT NULL,
    input        BIGINT  NOT NULL,
    output       BIGINT  NOT NULL,
    cache_read   BIGINT  NOT NULL,
    cache_write  BIGINT  NOT NULL,
    reasoning    BIGINT  NOT NULL,
    ms           BIGINT  NOT NULL,
    price        DOUBLE PRECISION,
    branch       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    turn         INTEGER NOT NULL,
    session      INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    tenant       TEXT    COLLATE "C" NOT NULL,
    conversation TEXT    COLLATE "C" NOT NULL,
    "user"       TEXT    COLLATE "C" NOT NULL,
    model        TEXT    COLLATE "C" NOT NULL,
    agent        TEXT    COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, conversation, branch, seq),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
);

CREATE INDEX model_calls_by_user ON model_calls (tenant, "user", time);
