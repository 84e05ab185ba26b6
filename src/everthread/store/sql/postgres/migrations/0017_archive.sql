-- Archives (docs/decisions/0048): the catalogue of conversations that were moved out of the database into files, with what
-- their usage, their quotes and recall need of them. `archived` is when a conversation was; its row stays, and all else of
-- it goes and comes back.

ALTER TABLE conversations ADD COLUMN archived BIGINT;

DROP INDEX conversations_by_activity;
CREATE INDEX conversations_by_activity ON conversations (tenant, "user", active, conversation)
    WHERE erased IS NULL AND archived IS NULL;
CREATE INDEX conversations_by_age ON conversations (active, tenant, conversation)
    WHERE erased IS NULL AND archived IS NULL;

-- The catalogue: a row for each file that holds a conversation, or may. These rows move: `writing` while the file is made,
-- `archived` once it is the only place of the conversation, and `owed` when it is to be deleted, because the conversation is
-- back or was erased. `title` is the beginning of its name; `newest` is when its last message came, `made` when it was
-- archived; `hash` is of the whole file. `sealed` is the file's own key, sealed with the master key that `key_id` names; it
-- is empty where the file is not encrypted, or is to be gone. `versioned`: the place keeps what is deleted there.
CREATE TABLE archives (
    tenant       TEXT    COLLATE "C" NOT NULL,
    conversation TEXT    COLLATE "C" NOT NULL,
    archive      TEXT    COLLATE "C" NOT NULL,
    "user"       TEXT    COLLATE "C" NOT NULL,
    state        TEXT    COLLATE "C" NOT NULL,
    place        TEXT    COLLATE "C" NOT NULL,
    title        TEXT    NOT NULL,
    hash         TEXT    COLLATE "C" NOT NULL,
    key_id       TEXT    COLLATE "C" NOT NULL,
    nonce        BYTEA   NOT NULL,
    sealed       BYTEA   NOT NULL,
    made         BIGINT  NOT NULL,
    newest       BIGINT  NOT NULL,
    events       BIGINT  NOT NULL,
    messages     BIGINT  NOT NULL,
    tokens       BIGINT  NOT NULL,
    size         BIGINT  NOT NULL,
    branches     INTEGER NOT NULL,
    versioned    INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, archive),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
);

CREATE INDEX archives_by_user ON archives (tenant, "user", made, archive) WHERE state = 'archived';
CREATE INDEX archives_unfinished ON archives (made) WHERE state <> 'archived';

-- The words that tell most of an archived conversation, as hashes of them and of whose it is: what recall finds it by.
CREATE TABLE archive_words (
    tenant       TEXT    COLLATE "C" NOT NULL,
    conversation TEXT    COLLATE "C" NOT NULL,
    archive      TEXT    COLLATE "C" NOT NULL,
    word         BIGINT  NOT NULL,
    PRIMARY KEY (tenant, conversation, archive, word),
    FOREIGN KEY (tenant, conversation, archive) REFERENCES archives (tenant, conversation, archive)
);

CREATE INDEX archive_words_by_word ON archive_words (word, tenant);

-- The figures of archived conversations' model calls, so that totals stay what they were.
CREATE TABLE archived_calls (
    tenant       TEXT    COLLATE "C" NOT NULL,
    conversation TEXT    COLLATE "C" NOT NULL,
    branch       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    "user"       TEXT    COLLATE "C" NOT NULL,
    turn         INTEGER NOT NULL,
    session      INTEGER NOT NULL,
    time         BIGINT  NOT NULL,
    model        TEXT    COLLATE "C" NOT NULL,
    agent        TEXT    COLLATE "C" NOT NULL,
    input        BIGINT  NOT NULL,
    output       BIGINT  NOT NULL,
    cache_read   BIGINT  NOT NULL,
    cache_write  BIGINT  NOT NULL,
    reasoning    BIGINT  NOT NULL,
    price        DOUBLE PRECISION,
    ms           BIGINT  NOT NULL,
    failed       INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, branch, seq),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
);

CREATE INDEX archived_calls_by_user ON archived_calls (tenant, "user", time);

-- What archived conversations quote, so that forgetting it finds them.
CREATE TABLE archived_quotes (
    tenant          TEXT    COLLATE "C" NOT NULL,
    conversation    TEXT    COLLATE "C" NOT NULL,
    branch          INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    time            BIGINT  NOT NULL,
    of_conversation TEXT    COLLATE "C" NOT NULL,
    of_branch       INTEGER NOT NULL,
    of_seq          INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, branch, seq, of_conversation, of_branch, of_seq),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
);

CREATE INDEX archived_quotes_of ON archived_quotes (tenant, of_conversation, of_branch, of_seq);

DO $$
DECLARE
    walled TEXT;
BEGIN
    FOREACH walled IN ARRAY ARRAY['archive_words', 'archived_calls', 'archived_quotes', 'archives'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', walled);
        EXECUTE format($policy$
            CREATE POLICY everthread_tenant ON %I USING (
                CASE (SELECT nullif(current_setting('everthread.tenant', true), ''))
                    WHEN '*' THEN true WHEN tenant THEN true ELSE false END)
            $policy$, walled);
    END LOOP;
END $$;
