-- Messages that are said at a time (core.schedules). These rows move: `due` is when one is said next, and `look` when a
-- worker looks at it; both are null once it is done. `text` is bytes for the reason that an event's body is. The tool call
-- that made it, if one did, is of conversation `made_conversation`: the schedule is forgotten with it.
CREATE TABLE schedules (
    at                BIGINT,
    due               BIGINT,
    look              BIGINT,
    ran               BIGINT,
    failures          INTEGER NOT NULL,
    made_branch       INTEGER NOT NULL,
    made_seq          INTEGER NOT NULL,
    tenant            TEXT    COLLATE "C" NOT NULL,
    conversation      TEXT    COLLATE "C" NOT NULL,
    id                TEXT    COLLATE "C" NOT NULL,
    "user"            TEXT    COLLATE "C" NOT NULL,
    cron              TEXT    COLLATE "C" NOT NULL,
    zone              TEXT    COLLATE "C" NOT NULL,
    missed            TEXT    COLLATE "C" NOT NULL,
    state             TEXT    COLLATE "C" NOT NULL,
    made_conversation TEXT    COLLATE "C" NOT NULL,
    text              BYTEA   NOT NULL,
    PRIMARY KEY (tenant, conversation, id),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
);

CREATE INDEX schedules_by_user ON schedules (tenant, "user", id);
CREATE INDEX schedules_by_look ON schedules (look) WHERE state = 'active';
CREATE INDEX schedules_by_call ON schedules (tenant, made_conversation, made_branch, made_seq);
