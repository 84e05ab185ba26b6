-- The schema of a log in SQLite: the truth, which the numbered migrations are proved to add up to.
--
-- The log only grows. A row of `events` is written once and never changes; it carries its event (`body`) and
-- the head of its branch as of that event, so that nothing about a branch is stored anywhere else. Of a
-- conversation one kind of row moves: its own (its name, goal, settings, metadata, when it was last active and the
-- branch it points at). The exception to both is asked for by name: redacting and erasing. Beside the log stand leases,
-- reminders, schedules and calibrations, which move, documents, whose versions only grow, and the index of recall, which follows
-- the log.
--
-- Every key of a conversation's begins with tenant and conversation, except its alias, which is unique for a user. Times are
-- microseconds since 1970, UTC.

-- Which migrations this database has seen.
CREATE TABLE everthread_migrations (
    version INTEGER PRIMARY KEY,
    name    TEXT    NOT NULL,
    time    INTEGER NOT NULL
) STRICT;

-- One row a conversation. `erased` is when it was; its tombstone keeps nothing that was said. `forgotten` is how often
-- something of it was redacted. `alias` is the application's own id, and `metadata` is the application's, too. `active` is
-- the minute since 1970 of its newest event: the first append of each minute writes it (docs/decisions/0035). `archived` is
-- when it was: then its row is all that is here, and the rest is in a file (docs/decisions/0048).
CREATE TABLE conversations (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    user         TEXT    NOT NULL,
    agent        TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    goal         TEXT    NOT NULL,
    settings     TEXT    NOT NULL,
    current      INTEGER NOT NULL,
    time         INTEGER NOT NULL,
    erased       INTEGER,
    forgotten    INTEGER NOT NULL DEFAULT 0,
    alias        TEXT,
    metadata     TEXT    NOT NULL DEFAULT '{}',
    active       INTEGER NOT NULL DEFAULT 0,
    archived     INTEGER,
    PRIMARY KEY (tenant, conversation)
) WITHOUT ROWID, STRICT;

CREATE INDEX conversations_by_user ON conversations (tenant, user, conversation);
CREATE INDEX conversations_by_agent ON conversations (tenant, user, agent, conversation);
CREATE UNIQUE INDEX conversations_by_alias ON conversations (tenant, user, alias);
CREATE INDEX conversations_by_activity ON conversations (tenant, user, active, conversation)
    WHERE erased IS NULL AND archived IS NULL;
CREATE INDEX conversations_by_age ON conversations (active, tenant, conversation)
    WHERE erased IS NULL AND archived IS NULL;

-- `at` is the last event that a branch shares with `parent`; its own begin at `at` + 1. `main` is number 1.
CREATE TABLE branches (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    parent       INTEGER,
    at           INTEGER NOT NULL,
    time         INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, branch),
    UNIQUE (tenant, conversation, name),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
) WITHOUT ROWID, STRICT;

-- All but the key, kind and body is core.turns.Head. Sums named …_before run along the whole line, without this
-- event.
CREATE TABLE events (
    tenant          TEXT    NOT NULL,
    conversation    TEXT    NOT NULL,
    branch          INTEGER NOT NULL,
    seq             INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    kind            TEXT    NOT NULL,
    time            INTEGER NOT NULL,
    turn            INTEGER NOT NULL,
    turn_first      INTEGER NOT NULL,
    state           TEXT    NOT NULL,
    pending         INTEGER NOT NULL,
    session         INTEGER NOT NULL,
    session_first   INTEGER NOT NULL,
    spoken          INTEGER NOT NULL,
    spoken_time     INTEGER NOT NULL,
    cleared         INTEGER NOT NULL,
    cleared_sum     INTEGER NOT NULL,
    tokens          INTEGER NOT NULL,
    settled         INTEGER NOT NULL,
    tokens_before   INTEGER NOT NULL,
    settled_before  INTEGER NOT NULL,
    messages_before INTEGER NOT NULL,
    body            BLOB    NOT NULL,
    importance      INTEGER NOT NULL DEFAULT 0,
    left_importance INTEGER NOT NULL DEFAULT 0,
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
) STRICT;

-- Gapless seq rests on the first: two writers cannot both take a number. The others find the first event of
-- a turn by the tokens before it (the cutoff), the first of a session, the newest marker of a kind, and turns by
-- how important they were when their successor began. None is below 0; the last index says so all the same, or
-- planners might take it where the cutoff is asked for, and sort.
CREATE UNIQUE INDEX events_by_seq ON events (tenant, conversation, branch, seq);
CREATE INDEX events_turns ON events (tenant, conversation, branch, settled_before, seq) WHERE turn_first = seq;
CREATE INDEX events_sessions ON events (tenant, conversation, branch, session) WHERE session_first = seq;
CREATE INDEX events_markers ON events (tenant, conversation, branch, kind, seq) WHERE spoken <> seq;
CREATE INDEX events_importance ON events (tenant, conversation, branch, left_importance, seq)
    WHERE turn_first = seq AND left_importance >= 0;

-- What an append with an idempotency key wrote, and the hash of what it was given.
CREATE TABLE receipts (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    first        INTEGER NOT NULL,
    last         INTEGER NOT NULL,
    hash         TEXT    NOT NULL,
    PRIMARY KEY (tenant, conversation, key),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
) WITHOUT ROWID, STRICT;

-- Images and files, once a conversation by the hash of their bytes, and which events show them.
CREATE TABLE blobs (
    tenant       TEXT NOT NULL,
    conversation TEXT NOT NULL,
    hash         TEXT NOT NULL,
    data         BLOB NOT NULL,
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
) STRICT;

CREATE UNIQUE INDEX blobs_by_hash ON blobs (tenant, conversation, hash);

CREATE TABLE blob_uses (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    hash         TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, hash, branch, seq),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch),
    FOREIGN KEY (tenant, conversation, hash) REFERENCES blobs (tenant, conversation, hash)
) WITHOUT ROWID, STRICT;

-- Who may do something alone, and until when. These rows move: a lease is taken, renewed, taken over once it has run
-- out, and released. `at` is the seq of the newest event written under it, and `partial` what has come since of a
-- running reply: the append of that reply empties it.
CREATE TABLE leases (
    tenant  TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    holder  TEXT    NOT NULL,
    until   INTEGER NOT NULL,
    at      INTEGER NOT NULL DEFAULT 0,
    partial TEXT    NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, name)
) WITHOUT ROWID, STRICT;

-- Texts with their versions, which only grow; the user '' is the tenant itself. A body is bytes for the reason that
-- an event's is: it may hold what no text of a database can.
CREATE TABLE documents (
    tenant  TEXT    NOT NULL,
    user    TEXT    NOT NULL,
    name    TEXT    NOT NULL,
    version INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    time    INTEGER NOT NULL,
    PRIMARY KEY (tenant, user, name, version)
) STRICT;

-- How often the usage of a model was so many twentieths of the canonical size. These rows move: counts grow.
CREATE TABLE calibrations (
    model TEXT    NOT NULL,
    step  INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (model, step)
) WITHOUT ROWID, STRICT;

-- What the `model_call` events say in figures, written with them, so that totals read no bodies. Only grows.
CREATE TABLE model_calls (
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
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
) WITHOUT ROWID, STRICT;

CREATE INDEX model_calls_by_user ON model_calls (tenant, user, time);

-- The tokens of model calls of a `day` (since 1970, UTC) that were forgotten on that day: so that forgetting gives nobody
-- more tokens a day than a service allows. Figures alone, of the day that runs and of none before; gone with their user.
CREATE TABLE forgotten_tokens (
    tenant TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    day    INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (tenant, user, day)
) WITHOUT ROWID, STRICT;

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

-- What nobody is told, made once with the store and never again: of it comes the fence (core.fence). It leaves the store
-- with a copy of the whole only; no export has it.
CREATE TABLE secrets (
    name  TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID, STRICT;

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

-- The canvas as it was after some of the events that changed it, so that the others need not be folded. It is derived from
-- these, and goes when one of them is redacted.
CREATE TABLE canvases (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    branch       INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    body         BLOB    NOT NULL,
    PRIMARY KEY (tenant, conversation, branch, seq),
    FOREIGN KEY (tenant, conversation, branch) REFERENCES branches (tenant, conversation, branch)
) WITHOUT ROWID, STRICT;

-- What is being forgotten: an event, a conversation, a user, a document or a schedule (`what`). Written with the first
-- step, and gone with the last, so that whoever comes after a crash can finish it.
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

-- Who calls the service (core.accounts). No conversation's text is in any of these tables, and no export has them; a back-up
-- of the whole database does. Erasing a user removes the account, links, sign-ins and API keys with the rest, and takes the
-- name out of the audit. Whatever is found by a token is found by its hash, before the tenant is known: across every wall, as
-- an operator; all else within a tenant.

-- A user who can sign in. These rows move. `password` is argon2's own text, or empty.
CREATE TABLE accounts (
    tenant   TEXT    NOT NULL,
    user     TEXT    NOT NULL,
    role     TEXT    NOT NULL,
    password TEXT    NOT NULL,
    made     INTEGER NOT NULL,
    disabled INTEGER,
    PRIMARY KEY (tenant, user)
) WITHOUT ROWID, STRICT;

-- One-time links, to sign in or (`what`) as an invitation, which makes the account. Using one removes it. `hash` is the
-- SHA-256 of its token, here as below.
CREATE TABLE links (
    tenant TEXT    NOT NULL,
    hash   TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    what   TEXT    NOT NULL,
    role   TEXT    NOT NULL,
    until  INTEGER NOT NULL,
    PRIMARY KEY (tenant, hash)
) WITHOUT ROWID, STRICT;

CREATE UNIQUE INDEX links_by_hash ON links (hash);
CREATE INDEX links_by_user ON links (tenant, user);

-- Browsers that are signed in. `how`: by password or link, or an administrator has entered; then `entered_by` says who, and
-- `scopes` what that may do. `seen` and `until` move while it is used.
CREATE TABLE sign_ins (
    tenant     TEXT    NOT NULL,
    hash       TEXT    NOT NULL,
    user       TEXT    NOT NULL,
    how        TEXT    NOT NULL,
    entered_by TEXT    NOT NULL,
    scopes     TEXT    NOT NULL,
    made       INTEGER NOT NULL,
    seen       INTEGER NOT NULL,
    until      INTEGER NOT NULL,
    PRIMARY KEY (tenant, hash)
) WITHOUT ROWID, STRICT;

CREATE UNIQUE INDEX sign_ins_by_hash ON sign_ins (hash);
CREATE INDEX sign_ins_by_user ON sign_ins (tenant, user);
CREATE INDEX sign_ins_by_entered ON sign_ins (tenant, entered_by) WHERE entered_by <> '';

-- API keys: a person's (`user`), or an application's, for users whose names begin with `users`. `scopes` has spaces between.
CREATE TABLE api_keys (
    tenant      TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    hash        TEXT    NOT NULL,
    user        TEXT    NOT NULL,
    application TEXT    NOT NULL,
    users       TEXT    NOT NULL,
    label       TEXT    NOT NULL,
    scopes      TEXT    NOT NULL,
    made        INTEGER NOT NULL,
    until       INTEGER NOT NULL,
    seen        INTEGER,
    revoked     INTEGER,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID, STRICT;

CREATE UNIQUE INDEX api_keys_by_hash ON api_keys (hash);
CREATE INDEX api_keys_by_user ON api_keys (tenant, user, id);

-- Providers' keys of a tenant, sealed (server.vault) with the master key that `key_id` names, which is not in the database.
CREATE TABLE provider_keys (
    tenant   TEXT    NOT NULL,
    provider TEXT    NOT NULL,
    key_id   TEXT    NOT NULL,
    nonce    BLOB    NOT NULL,
    sealed   BLOB    NOT NULL,
    made     INTEGER NOT NULL,
    PRIMARY KEY (tenant, provider)
) WITHOUT ROWID, STRICT;

-- What administrators and operators (`done_by` is empty) did, and to whom. Rows are only added; when a user is erased, the
-- name is replaced in them by a mark that means nothing, and what they say beside it is removed.
CREATE TABLE audit (
    tenant  TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    time    INTEGER NOT NULL,
    done_by TEXT    NOT NULL,
    act     TEXT    NOT NULL,
    user    TEXT    NOT NULL,
    about   TEXT    NOT NULL,
    PRIMARY KEY (tenant, id)
) WITHOUT ROWID, STRICT;

CREATE INDEX audit_by_user ON audit (tenant, user);
CREATE INDEX audit_by_actor ON audit (tenant, done_by);

-- Histories of other programs that were imported: by a keyed hash of each, so that the same file twice adds nothing.
-- Erasing a conversation removes its row.
CREATE TABLE imports (
    tenant       TEXT NOT NULL,
    user         TEXT NOT NULL,
    source       TEXT NOT NULL,
    conversation TEXT NOT NULL,
    PRIMARY KEY (tenant, user, source),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
) WITHOUT ROWID, STRICT;

CREATE INDEX imports_by_conversation ON imports (tenant, conversation);

-- The folders that mirror this store (transfer.mirror), each with the mark that it carries, and where it was seen last.
CREATE TABLE mirrors (
    mirror TEXT    NOT NULL PRIMARY KEY,
    folder TEXT    NOT NULL,
    seen   INTEGER NOT NULL
) WITHOUT ROWID, STRICT;

-- Conversations of which something was forgotten that a mirror may still hold. Written with what is forgotten, for every
-- mirror; gone once that mirror has followed.
CREATE TABLE mirrors_owe (
    tenant       TEXT    NOT NULL,
    conversation TEXT    NOT NULL,
    mirror       TEXT    NOT NULL,
    time         INTEGER NOT NULL,
    PRIMARY KEY (tenant, conversation, mirror, time)
) WITHOUT ROWID, STRICT;

CREATE INDEX mirrors_owe_by_mirror ON mirrors_owe (mirror, time);

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
