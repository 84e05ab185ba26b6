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
