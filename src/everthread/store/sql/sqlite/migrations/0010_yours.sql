-- The application's own id of a conversation and its metadata; and when something last happened in it, in minutes since 1970,
-- so that conversations are listed by it.

ALTER TABLE conversations ADD COLUMN alias TEXT;
ALTER TABLE conversations ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';
ALTER TABLE conversations ADD COLUMN active INTEGER NOT NULL DEFAULT 0;

UPDATE conversations SET active = coalesce((
    SELECT max((SELECT e.time FROM events e WHERE e.tenant = b.tenant AND e.conversation = b.conversation
        AND e.branch = b.branch ORDER BY e.seq DESC LIMIT 1))
    FROM branches b WHERE b.tenant = conversations.tenant AND b.conversation = conversations.conversation
), time) / 60000000;

CREATE UNIQUE INDEX conversations_by_alias ON conversations (tenant, user, alias);
CREATE INDEX conversations_by_activity ON conversations (tenant, user, active, conversation) WHERE erased IS NULL;
