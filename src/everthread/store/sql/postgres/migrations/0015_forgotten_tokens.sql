-- The tokens of model calls of a `day` (since 1970, UTC) that were forgotten on that day: so that forgetting gives nobody
-- more tokens a day than a service allows. Figures alone, of the day that runs and of none before; gone with their user.
CREATE TABLE forgotten_tokens (
    tenant TEXT   COLLATE "C" NOT NULL,
    "user" TEXT   COLLATE "C" NOT NULL,
    day    BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    PRIMARY KEY (tenant, "user", day)
);

ALTER TABLE forgotten_tokens ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY everthread_tenant ON forgotten_tokens USING (
    CASE (SELECT nullif(current_setting('everthread.tenant', true), ''))
        WHEN '*' THEN true WHEN tenant THEN true ELSE false END);
