-- The tokens of model calls of a `day` (since 1970, UTC) that were forgotten on that day: so that forgetting gives nobody
-- more tokens a day than a service allows. Figures alone, of the day that runs and of none before; gone with their user.
CREATE TABLE forgotten_tokens (
    tenant TEXT    NOT NULL,
    user   TEXT    NOT NULL,
    day    INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    PRIMARY KEY (tenant, user, day)
) WITHOUT ROWID, STRICT;
