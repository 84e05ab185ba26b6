-- The index that recall searches. It is empty at first and fills from the log when it is asked, or when a worker is there.

-- What recall finds events by. It follows the log a moment later and can be made from it at any time: `last` is the seq up
-- to which a branch is in it, with so many events and so many words. The block of an event is the branch's number and
-- which 512 of its events it is among (number * 2^20 + which), so the blocks of a branch stand together.
CREATE TABLE recall_branches (
    number       INTEGER PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    user         TEXT    NOT NULL,
    last         INTEGER NOT NULL,
    events       INTEGER NOT NULL,
    words        INTEGER NOT NULL,
    UNIQUE (tenant, conversation, branch),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
) STRICT;

CREATE INDEX recall_branches_by_user ON recall_branches (tenant, user, conversation);

-- A block's events by their seqs, slot after slot; the seq and session of the first, and when the first and last came.
CREATE TABLE recall_blocks (
    block   INTEGER PRIMARY KEY,
    first   INTEGER NOT NULL,
    session INTEGER NOT NULL,
    oldest  INTEGER NOT NULL,
    newest  INTEGER NOT NULL,
    seqs    TEXT    NOT NULL
) STRICT;

-- The postings of a word in a block (core.ranking). A word is known by a hash of it and of whose it is.
CREATE TABLE recall_words (
    word     INTEGER NOT NULL,
    block    INTEGER NOT NULL,
    postings TEXT    NOT NULL,
    PRIMARY KEY (word, block)
) WITHOUT ROWID, STRICT;

CREATE INDEX recall_words_by_block ON recall_words (block);
