-- Messages that are said at a time (core.schedules). These rows move: `due` is when one is said next, and `look` when a
-- worker looks at it; both are null once it is done. `text` is bytes for the reason that an event's body is. The tool call
-- that made it, if one did, is of conversation `made_conversation`: the schedule is forgotten with it.
CREATE TABLE schedules (
    tenant            TEXT    NOT NULL,
    conversation      TEXT    NOT NULL,
    id                TEXT    NOT NULL,
    user              TEXT    NOT NULL,
    text              BLOB    NOT NULL,
    at                INTEGER,
    cron              TEXT    NOT NULL,
    zone              TEXT    NOT NULL,
    missed            TEXT    NOT NULL,
    state             TEXT    NOT NULL,
    due               INTEGER,
    look              INTEGER,
    failures          INTEGER NOT NULL,
    ran               INTEGER,
    made_conversation TEXT    NOT NULL,
    made_branch       INTEGER NOT NULL,
    made_seq          INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, id),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
) WITHOUT ROWID, STRICT;

CREATE INDEX schedules_by_user ON schedules (tenant, user, id);
CREATE INDEX schedules_by_look ON schedules (look) WHERE state = 'active';
CREATE INDEX schedules_by_call ON schedules (tenant, made_conversation, made_branch, made_seq);
