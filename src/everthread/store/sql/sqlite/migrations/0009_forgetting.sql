-- Which events the results of memory's own tools quote, written with the results, so that forgetting one finds them; of
-- conversation '' where that is not known, of results from before this was written down.
CREATE TABLE quotes (
    tenant          TEXT    NOT NULL,
    conversation    TEXT    NOT NULL,
    branch          INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    of_conversation TEXT    NOT NULL,
    of_branch       INTEGER NOT NULL,
    of_seq          INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, branch, seq, of_conversation, of_branch, of_seq),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
) WITHOUT ROWID, STRICT;

CREATE INDEX quotes_of ON quotes (tenant, of_conversation, of_branch, of_seq);

-- What is being forgotten: an event, a conversation, a user or a document (`what`). Written with the first step, and gone
-- with the last, so that whoever comes after a crash can finish it.
CREATE TABLE forgetting (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    user         TEXT    NOT NULL,
    what         TEXT    NOT NULL,
    time         INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, branch, seq, user, what, time)
) WITHOUT ROWID, STRICT;

-- The tool calls that made their turn wait: few, and found wherever they are.
CREATE INDEX events_asking ON events (tenant, conversation, seq) WHERE kind = 'tool_call' AND state = 'waiting';

-- Of the results that are there it is not known what they quote.
INSERT INTO quotes (tenant, conversation, branch, seq, of_conversation, of_branch, of_seq)
SELECT tenant, conversation, branch, seq, '', 0, 0 FROM events
WHERE kind = 'tool_result' AND (instr(body, CAST('"name":"recall_context"' AS BLOB)) > 0
    OR instr(body, CAST('"name":"open_event"' AS BLOB)) > 0);
