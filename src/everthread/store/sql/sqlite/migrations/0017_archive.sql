-- Archives (docs/decisions/0048): the catalogue of conversations that were moved out of the database into files, with what
-- their usage, their quotes and recall need of them. `archived` is when a conversation was; its row stays, and all else of
-- it goes and comes back.

ALTER TABLE conversations ADD COLUMN archived INTEGER;

DROP INDEX conversations_by_activity;
CREATE INDEX conversations_by_activity ON conversations (tenant, user, active, conversation)
    WHERE erased IS NULL AND archived IS NULL;
CREATE INDEX conversations_by_age ON conversations (active, tenant, conversation)
    WHERE erased IS NULL AND archived IS NULL;

-- The catalogue: a row for each file that holds a conversation, or may. These rows move: `writing` while the file is made,
-- `archived` once it is the only place of the conversation, and `owed` when it is to be deleted, because the conversation is
-- back or was erased. `title` is the beginning of its name; `newest` is when its last message came, `made` when it was
-- archived; `hash` is of the whole file. `sealed` is the file's own key, sealed with the master key that `key_id` names; it
-- is empty where the file is not encrypted, or is to be gone. `versioned`: the place keeps what is deleted there.
CREATE TABLE archives (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    archive      TEXT    NOT NULL,
    user         TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    place        TEXT    NOT NULL,
    title        TEXT    NOT NULL,
    hash         TEXT    NOT NULL,
    key_id       TEXT    NOT NULL,
    nonce        BLOB    NOT NULL,
    sealed       BLOB    NOT NULL,
    made         INTEGER NOT NULL,
    newest       INTEGER NOT NULL,
    events       INTEGER NOT NULL,
    messages     INTEGER NOT NULL,
    tokens       INTEGER NOT NULL,
    size         INTEGER NOT NULL,
    branches     INTEGER NOT NULL,
    versioned    INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, archive),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
) WITHOUT ROWID, STRICT;

CREATE INDEX archives_by_user ON archives (tenant, user, made, archive) WHERE state = 'archived';
CREATE INDEX archives_unfinished ON archives (made) WHERE state <> 'archived';

-- The words that tell most of an archived conversation, as hashes of them and of whose it is: what recall finds it by.
CREATE TABLE archive_words (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    archive      TEXT    NOT NULL,
    word         INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, archive, word),
    FOREIGN KEY (tenant, conversation, archive) REFERENCES archives (tenant, conversation, archive)
) WITHOUT ROWID, STRICT;

CREATE INDEX archive_words_by_word ON archive_words (word, tenant);

-- The figures of archived conversations' model calls, so that totals stay what they were.
CREATE TABLE archived_calls (
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
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
) WITHOUT ROWID, STRICT;

CREATE INDEX archived_calls_by_user ON archived_calls (tenant, user, time);

-- What archived conversations quote, so that forgetting it finds them.
CREATE TABLE archived_quotes (
    tenant          TEXT    NOT NULL,
    conversation    TEXT    NOT NULL,
    branch          INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    time            INTEGER NOT NULL,
    of_conversation TEXT    NOT NULL,
    of_branch       INTEGER NOT NULL,
    of_seq          INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, branch, seq, of_conversation, of_branch, of_seq),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
) WITHOUT ROWID, STRICT;

CREATE INDEX archived_quotes_of ON archived_quotes (tenant, of_conversation, of_branch, of_seq);
