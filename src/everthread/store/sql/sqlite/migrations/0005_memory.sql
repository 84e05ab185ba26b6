-- Reminders for workers that are apart; and how often something of a conversation was redacted, so that nobody writes
-- down what was made of it before.

ALTER TABLE conversations ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;

-- Where memory has to look, for workers apart from the processes that reply. These rows move: a reminder is written anew
-- with each turn, and goes when what was due has been done. It is a hint and no more; what is due is read from the log.
CREATE TABLE reminders (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    user         TEXT    NOT NULL,
    due          INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, branch),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
) WITHOUT ROWID, STRICT;

CREATE INDEX reminders_by_due ON reminders (due);

-- Recall knows more of an event now: who speaks, whether it asks something, when it was said. The index is made anew.
DELETE FROM recall_words;
DELETE FROM recall_blocks;
DELETE FROM recall_branches;
