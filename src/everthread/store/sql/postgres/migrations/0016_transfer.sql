-- Histories of other programs that were imported: by a keyed hash of each, so that the same file twice adds nothing.
-- Erasing a conversation removes its row.
CREATE TABLE imports (
    tenant       TEXT COLLATE "C" NOT NULL,
    "user"       TEXT COLLATE "C" NOT NULL,
    source       TEXT COLLATE "C" NOT NULL,
    conversation TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, "user", source),
    FOREIGN KEY (tenant, conversation) REFERENCES conversations (tenant, conversation)
);

CREATE INDEX imports_by_conversation ON imports (tenant, conversation);

-- The folders that mirror this store (transfer.mirror), each with the mark that it carries, and where it was seen last.
CREATE TABLE mirrors (
    mirror TEXT   COLLATE "C" NOT NULL PRIMARY KEY,
    folder TEXT   COLLATE "C" NOT NULL,
    seen   BIGINT NOT NULL
);

-- Conversations of which something was forgotten that a mirror may still hold. Written with what is forgotten, for every
-- mirror; gone once that mirror has followed.
CREATE TABLE mirrors_owe (
    tenant       TEXT   COLLATE "C" NOT NULL,
    conversation TEXT   COLLATE "C" NOT NULL,
    mirror       TEXT   COLLATE "C" NOT NULL,
    time         BIGINT NOT NULL,
    PRIMARY KEY (tenant, conversation, mirror, time)
);

CREATE INDEX mirrors_owe_by_mirror ON mirrors_owe (mirror, time);

DO $$
DECLARE
    walled TEXT;
BEGIN
    FOREACH walled IN ARRAY ARRAY['imports', 'mirrors_owe'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', walled);
        EXECUTE format($policy$
            CREATE POLICY everthread_tenant ON %I USING (
                CASE (SELECT nullif(current_setting('everthread.tenant', true), ''))
                    WHEN '*' THEN true WHEN tenant THEN true ELSE false END)
            $policy$, walled);
    END LOOP;
END $$;
