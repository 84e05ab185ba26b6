-- Who calls the service (core.accounts). No conversation's text is in any of these tables, and no export has them; a back-up
-- of the whole database does. Erasing a user removes the account, links, sign-ins and API keys with the rest, and takes the
-- name out of the audit. Whatever is found by a token is found by its hash, before the tenant is known: across every wall, as
-- an operator; all else within a tenant.

-- A user who can sign in. These rows move. `password` is argon2's own text, or empty.
CREATE TABLE accounts (
    tenant   TEXT    COLLATE "C" NOT NULL,
    "user"   TEXT    COLLATE "C" NOT NULL,
    role     TEXT    COLLATE "C" NOT NULL,
    password TEXT    COLLATE "C" NOT NULL,
    made     BIGINT  NOT NULL,
    disabled BIGINT,
    PRIMARY KEY (tenant, "user")
);

-- One-time links, to sign in or (`what`) as an invitation, which makes the account. Using one removes it. `hash` is the
-- SHA-256 of its token, here as below.
CREATE TABLE links (
    tenant TEXT   COLLATE "C" NOT NULL,
    hash   TEXT   COLLATE "C" NOT NULL,
    "user" TEXT   COLLATE "C" NOT NULL,
    what   TEXT   COLLATE "C" NOT NULL,
    role   TEXT   COLLATE "C" NOT NULL,
    until  BIGINT NOT NULL,
    PRIMARY KEY (tenant, hash)
);

CREATE UNIQUE INDEX links_by_hash ON links (hash);
CREATE INDEX links_by_user ON links (tenant, "user");

-- Browsers that are signed in. `how`: by password or link, or an administrator has entered; then `entered_by` says who, and
-- `scopes` what that may do. `seen` and `until` move while it is used.
CREATE TABLE sign_ins (
    tenant     TEXT   COLLATE "C" NOT NULL,
    hash       TEXT   COLLATE "C" NOT NULL,
    "user"     TEXT   COLLATE "C" NOT NULL,
    how        TEXT   COLLATE "C" NOT NULL,
    entered_by TEXT   COLLATE "C" NOT NULL,
    scopes     TEXT   COLLATE "C" NOT NULL,
    made       BIGINT NOT NULL,
    seen       BIGINT NOT NULL,
    until      BIGINT NOT NULL,
    PRIMARY KEY (tenant, hash)
);

CREATE UNIQUE INDEX sign_ins_by_hash ON sign_ins (hash);
CREATE INDEX sign_ins_by_user ON sign_ins (tenant, "user");
CREATE INDEX sign_ins_by_entered ON sign_ins (tenant, entered_by) WHERE entered_by <> '';

-- API keys: a person's (`user`), or an application's, for users whose names begin with `users`. `scopes` has spaces between.
CREATE TABLE api_keys (
    tenant      TEXT    COLLATE "C" NOT NULL,
    id          TEXT    COLLATE "C" NOT NULL,
    hash        TEXT    COLLATE "C" NOT NULL,
    "user"      TEXT    COLLATE "C" NOT NULL,
    application TEXT    COLLATE "C" NOT NULL,
    users       TEXT    COLLATE "C" NOT NULL,
    label       TEXT    COLLATE "C" NOT NULL,
    scopes      TEXT    COLLATE "C" NOT NULL,
    made        BIGINT  NOT NULL,
    until       BIGINT  NOT NULL,
    seen        BIGINT,
    revoked     BIGINT,
    PRIMARY KEY (tenant, id)
);

CREATE UNIQUE INDEX api_keys_by_hash ON api_keys (hash);
CREATE INDEX api_keys_by_user ON api_keys (tenant, "user", id);

-- Providers' keys of a tenant, sealed (server.vault) with the master key that `key_id` names, which is not in the database.
CREATE TABLE provider_keys (
    tenant   TEXT   COLLATE "C" NOT NULL,
    provider TEXT   COLLATE "C" NOT NULL,
    key_id   TEXT   COLLATE "C" NOT NULL,
    nonce    BYTEA  NOT NULL,
    sealed   BYTEA  NOT NULL,
    made     BIGINT NOT NULL,
    PRIMARY KEY (tenant, provider)
);

-- What administrators and operators (`done_by` is empty) did, and to whom. Rows are only added; when a user is erased, the
-- name is replaced in them by a mark that means nothing, and what they say beside it is removed.
CREATE TABLE audit (
    tenant  TEXT   COLLATE "C" NOT NULL,
    id      TEXT   COLLATE "C" NOT NULL,
    time    BIGINT NOT NULL,
    done_by TEXT   COLLATE "C" NOT NULL,
    act     TEXT   COLLATE "C" NOT NULL,
    "user"  TEXT   COLLATE "C" NOT NULL,
    about   TEXT   COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, id)
);

CREATE INDEX audit_by_user ON audit (tenant, "user");
CREATE INDEX audit_by_actor ON audit (tenant, done_by);
