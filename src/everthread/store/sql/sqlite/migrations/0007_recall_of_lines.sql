-- Blocks are of a conversation, no longer of a branch each: a line that was rewound a thousand times had a thousand of a
-- few events. The index is made anew from the log, by whoever searches first or by a worker.
DROP TABLE recall_words;
DROP TABLE recall_blocks;
DROP TABLE recall_branches;

-- What recall finds events by. It follows the log a moment later and can be made from it at any time. All that is in it of
-- a conversation stands together: its number, then which 512 events it is (number * 2^20 + which) are an event's block,
-- whichever branch it is on. `slots` is how many are taken, some of them left empty; `events` and `words` is what is there.
CREATE TABLE recall_conversations (
    number       INTEGER PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    user         TEXT    NOT NULL,
    slots        INTEGER NOT NULL,
    events       INTEGER NOT NULL,
    words        INTEGER NOT NULL,
    UNIQUE (tenant, conversation),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
) STRICT;

CREATE INDEX recall_conversations_by_user ON recall_conversations (tenant, user, conversation);

-- Up to which seq a branch is in it.
CREATE TABLE recall_branches (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    last         INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, branch),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
) WITHOUT ROWID, STRICT;

-- A block's events by their seqs, slot after slot, and from which slot on they are of which branch; their lowest and highest
-- seq, the session of the first, and when the first and last came.
CREATE TABLE recall_blocks (
    block   INTEGER PRIMARY KEY,
    first   INTEGER NOT NULL,
    last    INTEGER NOT NULL,
    session INTEGER NOT NULL,
    oldest  INTEGER NOT NULL,
    newest  INTEGER NOT NULL,
    seqs    TEXT    NOT NULL,
    runs    TEXT    NOT NULL
) STRICT;

-- The postings of a word in a block (core.ranking). A word is known by a hash of it and of whose it is.
CREATE TABLE recall_words (
    word     INTEGER NOT NULL,
    block    INTEGER NOT NULL,
    postings TEXT    NOT NULL,
    PRIMARY KEY (word, block)
) WITHOUT ROWID, STRICT;

CREATE INDEX recall_words_by_block ON recall_words (block);
