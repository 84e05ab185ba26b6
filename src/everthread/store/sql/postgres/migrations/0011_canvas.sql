-- The canvas as it was after some of the events that changed it, so that the others need not be folded. It is derived from
-- these, and goes when one of them is redacted.
CREATE TABLE canvases (
    tenant       TEXT    COLLATE "C" NOT NULL,
    conversation TEXT    COLLATE "C" NOT NULL,
    branch       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    body         BYTEA   NOT NULL,
    PRIMARY KEY (tenant, conversation, branch, seq),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
);
