-- The questions and statements of the log, by name, for both engines: written in the SQL that they share, so
-- that there is one text to read and to get right. Parameters are written :name.
--
-- PostgreSQL's wall between tenants (docs/decisions/0044) lets an index be used only for comparisons that can give nothing
-- away before the wall is asked: of a column with a column, a parameter or what a query of its own found. So a look-up by
-- something that is computed stands apart: `(SELECT coalesce(…))`, or LATERAL (… OFFSET 0) where it is made of another
-- table's columns. tests/migrations/test_queries.py asks for the plans behind the wall, and on either side of it.

-- == conversations ==

-- name: insert_conversation
INSERT INTO conversations
    (tenant, conversation, "user", agent, name, goal, settings, current, time, alias, metadata, active)
VALUES (:tenant, :conversation, :user, :agent, :name, :goal, :settings, :current, :time, :alias, :metadata, :active)

-- name: conversation
-- One conversation of a user.
SELECT conversation, "user", agent, name, goal, settings, current, time, alias, metadata, erased, archived
FROM conversations
WHERE tenant = :tenant AND conversation = :conversation AND "user" = :user

-- name: conversation_by_alias
-- The one that the application knows by an id of its own.
SELECT conversation, "user", agent, name, goal, settings, current, time, alias, metadata, erased, archived
FROM conversations
WHERE tenant = :tenant AND "user" = :user AND alias = :alias

-- name: conversation_exists
-- Whether it was erased, whoever it belongs to: an imported id must be new to the tenant.
SELECT CASE WHEN erased IS NULL THEN 0 ELSE 1 END FROM conversations WHERE tenant = :tenant AND conversation = :conversation

-- name: conversations
-- A page of a user's conversations, newest first.
SELECT conversation, "user", agent, name, goal, settings, current, time, alias, metadata, erased, archived
FROM conversations
WHERE tenant = :tenant AND "user" = :user AND conversation < :before AND erased IS NULL
    AND (agent = :agent OR :agent = '')
ORDER BY conversation DESC
LIMIT :limit

-- name: conversations_by_activity
-- A user's conversations that are not archived and were last active in the minute `high`, and then so many minutes before it, whole, as hold
-- `skip` + 1 others: newest first, but not within a minute.
SELECT conversation, "user", agent, name, goal, settings, current, time, alias, metadata, erased, archived, active
FROM conversations
WHERE tenant = :tenant AND "user" = :user AND erased IS NULL AND archived IS NULL AND (agent = :agent OR :agent = '')
    AND active <= CAST(:high AS bigint) AND active >= (SELECT coalesce((
        SELECT active FROM conversations
        WHERE tenant = :tenant AND "user" = :user AND erased IS NULL AND archived IS NULL
            AND (agent = :agent OR :agent = '') AND active < CAST(:high AS bigint)
        ORDER BY active DESC, conversation DESC LIMIT 1 OFFSET :skip), 0))
ORDER BY active DESC, conversation DESC

-- name: newest_conversation
SELECT conversation, "user", agent, name, goal, settings, current, time, alias, metadata, erased, archived
FROM conversations
WHERE tenant = :tenant AND "user" = :user AND agent = :agent AND erased IS NULL
ORDER BY conversation DESC
LIMIT 1

-- name: all_conversations
-- Of every tenant and user: for operators only.
SELECT tenant, conversation FROM conversations ORDER BY tenant, conversation

-- name: everybodys_conversations
-- A page of all that are not erased, of every tenant and user: for operators only.
SELECT tenant, conversation, "user", agent, name, goal, settings, current, time, alias, metadata, erased, archived
FROM conversations
WHERE (tenant > :tenant OR (tenant = :tenant AND conversation > :after)) AND erased IS NULL
ORDER BY tenant, conversation LIMIT :limit

-- name: active_since
-- Those of every tenant and user with something new since a minute: for operators only.
SELECT tenant, conversation, "user", agent, name, goal, settings, current, time, alias, metadata, erased, archived
FROM conversations
WHERE active >= CAST(:minute AS bigint) AND erased IS NULL
    AND (tenant > :tenant OR (tenant = :tenant AND conversation > :after))
ORDER BY tenant, conversation LIMIT :limit

-- name: anybodys_conversation
-- Whoever it belongs to: for operators only.
SELECT tenant, conversation, "user", agent, name, goal, settings, current, time, alias, metadata, erased, archived
FROM conversations WHERE tenant = :tenant AND conversation = :conversation

-- name: idle_of_tenant
-- A tenant's conversations with nothing new since a minute, and with no schedule that is still to be said.
SELECT c.tenant, c.conversation, c."user", c.agent, c.name, c.goal, c.settings, c.current, c.time, c.alias, c.metadata, c.erased, c.archived
FROM conversations AS c
WHERE c.tenant = :tenant AND c.erased IS NULL AND c.active < CAST(:minute AS bigint) AND c.conversation > :after
    AND NOT EXISTS (SELECT 1 FROM schedules AS s
        WHERE s.tenant = c.tenant AND s.conversation = c.conversation AND s.state = 'active')
ORDER BY c.conversation LIMIT :limit

-- name: everybody
-- Every tenant, and its users ('' is the tenant itself), that have anything: for operators only.
SELECT tenant, "user" FROM conversations WHERE erased IS NULL
UNION SELECT tenant, "user" FROM documents
UNION SELECT tenant, "user" FROM accounts
ORDER BY 1, 2

-- == records of a whole store, which operators move ==

-- name: read_account
SELECT tenant, "user", role, password, made, disabled FROM accounts ORDER BY tenant, "user"

-- name: write_account
INSERT INTO accounts (tenant, "user", role, password, made, disabled)
VALUES (:tenant, :user, :role, :password, :made, :disabled) ON CONFLICT DO NOTHING

-- name: there_account
SELECT 1 FROM accounts WHERE tenant = :tenant AND "user" = :user

-- name: read_api_key
SELECT tenant, id, hash, "user", application, users, label, scopes, made, until, seen, revoked FROM api_keys
ORDER BY tenant, id

-- name: write_api_key
INSERT INTO api_keys (tenant, id, hash, "user", application, users, label, scopes, made, until, seen, revoked)
VALUES (:tenant, :id, :hash, :user, :application, :users, :label, :scopes, :made, :until, :seen, :revoked)
ON CONFLICT DO NOTHING

-- name: there_api_key
SELECT 1 FROM api_keys WHERE tenant = :tenant AND id = :id

-- name: read_provider_key
SELECT tenant, provider, key_id, nonce, sealed, made FROM provider_keys ORDER BY tenant, provider

-- name: write_provider_key
INSERT INTO provider_keys (tenant, provider, key_id, nonce, sealed, made)
VALUES (:tenant, :provider, :key_id, :nonce, :sealed, :made) ON CONFLICT DO NOTHING

-- name: there_provider_key
SELECT 1 FROM provider_keys WHERE tenant = :tenant AND provider = :provider

-- name: read_schedule
SELECT tenant, conversation, id, "user", text, at, cron, zone, missed, state, due, look, failures, ran,
    made_conversation, made_branch, made_seq
FROM schedules ORDER BY tenant, conversation, id

-- name: write_schedule
INSERT INTO schedules (tenant, conversation, id, "user", text, at, cron, zone, missed, state, due, look, failures, ran,
    made_conversation, made_branch, made_seq)
VALUES (:tenant, :conversation, :id, :user, :text, :at, :cron, :zone, :missed, :state, :due, :look, :failures, :ran,
    :made_conversation, :made_branch, :made_seq) ON CONFLICT DO NOTHING

-- name: there_schedule
SELECT 1 FROM schedules WHERE tenant = :tenant AND conversation = :conversation AND id = :id

-- name: read_erased
SELECT tenant, conversation, "user", agent, time, active, erased FROM conversations WHERE erased IS NOT NULL
ORDER BY tenant, conversation

-- name: write_erased
INSERT INTO conversations
    (tenant, conversation, "user", agent, name, goal, settings, current, time, alias, metadata, active, erased)
VALUES (:tenant, :conversation, :user, :agent, '', '', '{}', 1, :time, NULL, '{}', :active, :erased)
ON CONFLICT DO NOTHING

-- name: there_erased
SELECT 1 FROM conversations WHERE tenant = :tenant AND conversation = :conversation

-- name: read_calibration
SELECT model, step, count FROM calibrations ORDER BY model, step

-- name: write_calibration
INSERT INTO calibrations (model, step, count) VALUES (:model, :step, :count) ON CONFLICT DO NOTHING

-- name: there_calibration
SELECT 1 FROM calibrations WHERE model = :model AND step = :step

-- name: all_receipts
SELECT key, branch, first, last, hash FROM receipts WHERE tenant = :tenant AND conversation = :conversation ORDER BY key

-- name: branch_heads
-- Every branch of a conversation with its newest event's sums and those before its first own event.
SELECT b.branch, b.name, b.parent, b.at, b.time,
    coalesce(e.seq, 0), coalesce(e.time, 0),
    coalesce(e.tokens_before + e.tokens, 0),
    coalesce(e.messages_before + CASE WHEN e.spoken = e.seq THEN 1 ELSE 0 END, 0),
    coalesce(f.tokens_before, 0), coalesce(f.messages_before, 0)
FROM branches b
LEFT JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = b.tenant AND e.conversation = b.conversation AND e.branch = b.branch
        AND e.seq = (SELECT max(seq) FROM events
            WHERE tenant = b.tenant AND conversation = b.conversation AND branch = b.branch)
    OFFSET 0) AS e ON true
LEFT JOIN LATERAL (
    SELECT f.* FROM events AS f
    WHERE f.tenant = b.tenant AND f.conversation = b.conversation AND f.branch = b.branch AND f.seq = b.at + 1
    OFFSET 0) AS f ON true
WHERE b.tenant = :tenant AND b.conversation = :conversation
ORDER BY b.branch

-- name: branch_heads_among
-- The same of some conversations, which are the names in a JSON object.
SELECT b.conversation, b.branch, b.name, b.parent, b.at, b.time,
    coalesce(e.seq, 0), coalesce(e.time, 0),
    coalesce(e.tokens_before + e.tokens, 0),
    coalesce(e.messages_before + CASE WHEN e.spoken = e.seq THEN 1 ELSE 0 END, 0),
    coalesce(f.tokens_before, 0), coalesce(f.messages_before, 0)
FROM json_each(:ids) AS j
CROSS JOIN LATERAL (
    SELECT b.* FROM branches AS b
    WHERE b.tenant = :tenant AND b.conversation = j.key
    OFFSET 0) AS b
LEFT JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = b.tenant AND e.conversation = b.conversation AND e.branch = b.branch
        AND e.seq = (SELECT max(seq) FROM events
            WHERE tenant = b.tenant AND conversation = b.conversation AND branch = b.branch)
    OFFSET 0) AS e ON true
LEFT JOIN LATERAL (
    SELECT f.* FROM events AS f
    WHERE f.tenant = b.tenant AND f.conversation = b.conversation AND f.branch = b.branch AND f.seq = b.at + 1
    OFFSET 0) AS f ON true
WHERE b.tenant = :tenant

-- name: user_totals
-- Events, messages and tokens of all of a user's conversations, archived ones too, each event counted once.
SELECT count(DISTINCT c.conversation), coalesce(sum(e.seq - b.at), 0) + (
        SELECT coalesce(sum(a.events), 0) FROM archives a
        WHERE a.tenant = :tenant AND a."user" = :user AND a.state = 'archived'),
    coalesce(sum(e.messages_before + CASE WHEN e.spoken = e.seq THEN 1 ELSE 0 END - f.messages_before), 0) + (
        SELECT coalesce(sum(a.messages), 0) FROM archives a
        WHERE a.tenant = :tenant AND a."user" = :user AND a.state = 'archived'),
    coalesce(sum(e.tokens_before + e.tokens - f.tokens_before), 0) + (
        SELECT coalesce(sum(a.tokens), 0) FROM archives a
        WHERE a.tenant = :tenant AND a."user" = :user AND a.state = 'archived')
FROM conversations c
LEFT JOIN branches b ON b.tenant = c.tenant AND b.conversation = c.conversation
LEFT JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = b.tenant AND e.conversation = b.conversation AND e.branch = b.branch
        AND e.seq = (SELECT max(seq) FROM events
            WHERE tenant = b.tenant AND conversation = b.conversation AND branch = b.branch)
    OFFSET 0) AS e ON true
LEFT JOIN LATERAL (
    SELECT f.* FROM events AS f
    WHERE f.tenant = b.tenant AND f.conversation = b.conversation AND f.branch = b.branch AND f.seq = b.at + 1
    OFFSET 0) AS f ON true
WHERE c.tenant = :tenant AND c."user" = :user AND c.erased IS NULL

-- name: update_conversation
UPDATE conversations SET name = :name, goal = :goal, settings = :settings, metadata = :metadata
WHERE tenant = :tenant AND conversation = :conversation AND erased IS NULL

-- name: stir
-- Something happened in this minute: the newest there is, or the first of all, which may be older than the conversation.
-- Where there is another branch, it is not the first of all.
UPDATE conversations SET active = :active
WHERE tenant = :tenant AND conversation = :conversation AND (active < CAST(:active AS bigint) OR (:first = 1
    AND NOT EXISTS (SELECT 1 FROM branches AS b
        WHERE b.tenant = :tenant AND b.conversation = :conversation AND b.branch > 1)))

-- name: count_redaction
UPDATE conversations SET forgotten = forgotten + 1 WHERE tenant = :tenant AND conversation = :conversation

-- name: forgotten
SELECT forgotten FROM conversations WHERE tenant = :tenant AND conversation = :conversation

-- name: point
UPDATE conversations SET current = :branch WHERE tenant = :tenant AND conversation = :conversation

-- == branches ==

-- name: insert_branch
INSERT INTO branches (tenant, conversation, branch, name, parent, at, time)
VALUES (:tenant, :conversation, :branch, :name, :parent, :at, :time)

-- name: branches
SELECT branch, name, parent, at, time FROM branches
WHERE tenant = :tenant AND conversation = :conversation
ORDER BY branch

-- name: newest_branch
SELECT branch FROM branches
WHERE tenant = :tenant AND conversation = :conversation
ORDER BY branch DESC LIMIT 1

-- name: branch_named
SELECT branch FROM branches
WHERE tenant = :tenant AND conversation = :conversation AND name = :name

-- name: branch
-- One branch; the current one where none is given. Asked for as the newest up to it: PostgreSQL might take the index on names
-- for an equality, and read all branches.
SELECT branch, name, parent, at, time FROM (
    SELECT branch, name, parent, at, time FROM branches
    WHERE tenant = :tenant AND conversation = :conversation
        AND branch <= (SELECT coalesce(CAST(:branch AS integer),
            (SELECT current FROM conversations WHERE tenant = :tenant AND conversation = :conversation)))
    ORDER BY branch DESC LIMIT 1) AS found
WHERE branch = coalesce(CAST(:branch AS integer),
    (SELECT current FROM conversations WHERE tenant = :tenant AND conversation = :conversation))

-- name: ancestry
-- A branch and its ancestors, itself first: number, parent, and the last event they share; and the newest marker of each kind
-- on its parent up to there. Each is looked up by itself, and as the newest up to it: PostgreSQL might read all branches for
-- every step.
WITH RECURSIVE ancestry (depth, branch, parent, at) AS (
    SELECT 0, branch, parent, at FROM branches
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    UNION ALL
    SELECT depth + 1, ancestry.parent,
        (SELECT b.parent FROM branches b
            WHERE b.tenant = :tenant AND b.conversation = :conversation AND b.branch <= ancestry.parent
            ORDER BY b.branch DESC LIMIT 1),
        (SELECT b.at FROM branches b
            WHERE b.tenant = :tenant AND b.conversation = :conversation AND b.branch <= ancestry.parent
            ORDER BY b.branch DESC LIMIT 1)
    FROM ancestry WHERE ancestry.parent IS NOT NULL
)
SELECT ancestry.branch, ancestry.parent, ancestry.at,
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation
        AND m.branch = ancestry.parent AND m.spoken <> m.seq AND m.kind = 'settings' AND m.seq <= ancestry.at
        ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation
        AND m.branch = ancestry.parent AND m.spoken <> m.seq AND m.kind = 'pin' AND m.seq <= ancestry.at
        ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation
        AND m.branch = ancestry.parent AND m.spoken <> m.seq AND m.kind = 'brief_updated' AND m.seq <= ancestry.at
        ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation
        AND m.branch = ancestry.parent AND m.spoken <> m.seq AND m.kind = 'summary' AND m.seq <= ancestry.at
        ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation
        AND m.branch = ancestry.parent AND m.spoken <> m.seq AND m.kind = 'session_ended' AND m.seq <= ancestry.at
        ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation
        AND m.branch = ancestry.parent AND m.spoken <> m.seq AND m.kind = 'canvas' AND m.seq <= ancestry.at
        ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation
        AND m.branch = ancestry.parent AND m.spoken <> m.seq AND m.kind = 'flow_completed' AND m.seq <= ancestry.at
        ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation
        AND m.branch = ancestry.parent AND m.spoken <> m.seq AND m.kind = 'model_call' AND m.seq <= ancestry.at
        ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation
        AND m.branch = ancestry.parent AND m.spoken <> m.seq AND m.kind = 'mark' AND m.seq <= ancestry.at
        ORDER BY m.seq DESC LIMIT 1)
FROM ancestry
ORDER BY ancestry.depth

-- name: left_at
-- What a branch had come to at one of its own events: the head, the turn that had begun last if it began on this branch, and
-- the newest marker of each kind on it. Each is looked up by itself, or PostgreSQL might read the whole branch.
SELECT h.seq, h.id, h.time, h.turn, h.turn_first, h.state, h.pending, h.session, h.session_first, h.spoken, h.spoken_time,
    h.cleared, h.cleared_sum, h.tokens, h.settled, h.tokens_before, h.settled_before, h.messages_before,
    h.importance, h.left_importance,
    (SELECT f.seq FROM events f WHERE f.tenant = :tenant AND f.conversation = :conversation AND f.branch = :branch
        AND f.seq = h.turn_first),
    (SELECT f.settled_before FROM events f WHERE f.tenant = :tenant AND f.conversation = :conversation AND f.branch = :branch
        AND f.seq = h.turn_first),
    (SELECT f.turn FROM events f WHERE f.tenant = :tenant AND f.conversation = :conversation AND f.branch = :branch
        AND f.seq = h.turn_first),
    (SELECT f.messages_before FROM events f WHERE f.tenant = :tenant AND f.conversation = :conversation AND f.branch = :branch
        AND f.seq = h.turn_first),
    (SELECT f.tokens_before FROM events f WHERE f.tenant = :tenant AND f.conversation = :conversation AND f.branch = :branch
        AND f.seq = h.turn_first),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation AND m.branch = :branch
        AND m.spoken <> m.seq AND m.kind = 'settings' AND m.seq <= :seq ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation AND m.branch = :branch
        AND m.spoken <> m.seq AND m.kind = 'pin' AND m.seq <= :seq ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation AND m.branch = :branch
        AND m.spoken <> m.seq AND m.kind = 'brief_updated' AND m.seq <= :seq ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation AND m.branch = :branch
        AND m.spoken <> m.seq AND m.kind = 'summary' AND m.seq <= :seq ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation AND m.branch = :branch
        AND m.spoken <> m.seq AND m.kind = 'session_ended' AND m.seq <= :seq ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation AND m.branch = :branch
        AND m.spoken <> m.seq AND m.kind = 'canvas' AND m.seq <= :seq ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation AND m.branch = :branch
        AND m.spoken <> m.seq AND m.kind = 'flow_completed' AND m.seq <= :seq ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation AND m.branch = :branch
        AND m.spoken <> m.seq AND m.kind = 'model_call' AND m.seq <= :seq ORDER BY m.seq DESC LIMIT 1),
    (SELECT m.seq FROM events m WHERE m.tenant = :tenant AND m.conversation = :conversation AND m.branch = :branch
        AND m.spoken <> m.seq AND m.kind = 'mark' AND m.seq <= :seq ORDER BY m.seq DESC LIMIT 1)
FROM events h
WHERE h.tenant = :tenant AND h.conversation = :conversation AND h.branch = :branch AND h.seq = :seq

-- == appending ==

-- name: head
-- The newest event's head on a branch, the current one where none is given.
SELECT branch, seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before,
    importance, left_importance
FROM events
WHERE tenant = :tenant AND conversation = :conversation
    AND branch = (SELECT coalesce(CAST(:branch AS integer),
        (SELECT current FROM conversations WHERE tenant = :tenant AND conversation = :conversation)))
ORDER BY seq DESC LIMIT 1

-- name: head_at
-- The head of a branch as of one of its own events.
SELECT seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before,
    importance, left_importance
FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq = :seq

-- name: insert_event
INSERT INTO events (tenant, conversation, branch, kind, body,
    seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before,
    importance, left_importance)
VALUES (:tenant, :conversation, :branch, :kind, :body,
    :seq, :id, :time, :turn, :turn_first, :state, :pending, :session, :session_first, :spoken, :spoken_time,
    :cleared, :cleared_sum, :tokens, :settled, :tokens_before, :settled_before, :messages_before,
    :importance, :left_importance)

-- name: insert_event_if_current
-- The same, unless the conversation points at another branch by now.
INSERT INTO events (tenant, conversation, branch, kind, body,
    seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before,
    importance, left_importance)
SELECT :tenant, :conversation, :branch, :kind, :body,
    :seq, :id, :time, :turn, :turn_first, :state, :pending, :session, :session_first, :spoken, :spoken_time,
    :cleared, :cleared_sum, :tokens, :settled, :tokens_before, :settled_before, :messages_before,
    :importance, :left_importance
WHERE EXISTS (SELECT 1 FROM conversations
    WHERE tenant = :tenant AND conversation = :conversation AND current = :branch)

-- name: receipt
SELECT branch, first, last, hash FROM receipts
WHERE tenant = :tenant AND conversation = :conversation AND key = :key

-- name: insert_receipt
INSERT INTO receipts (tenant, conversation, key, branch, first, last, hash)
VALUES (:tenant, :conversation, :key, :branch, :first, :last, :hash)

-- name: insert_blob
INSERT INTO blobs (tenant, conversation, hash, data) VALUES (:tenant, :conversation, :hash, :data)
ON CONFLICT (tenant, conversation, hash) DO NOTHING

-- name: insert_blob_use
INSERT INTO blob_uses (tenant, conversation, hash, branch, seq)
VALUES (:tenant, :conversation, :hash, :branch, :seq)
ON CONFLICT (tenant, conversation, hash, branch, seq) DO NOTHING

-- name: insert_model_call
-- Beside its event, with the user whose conversation it is.
INSERT INTO model_calls (tenant, conversation, branch, seq, "user", turn, session, time, model, agent,
    input, output, cache_read, cache_write, reasoning, price, ms, failed)
SELECT tenant, conversation, :branch, :seq, "user", :turn, :session, :time, :model, :agent,
    :input, :output, :cache_read, :cache_write, :reasoning, :price, :ms, :failed
FROM conversations WHERE tenant = :tenant AND conversation = :conversation

-- name: blob
SELECT data FROM blobs WHERE tenant = :tenant AND conversation = :conversation AND hash = :hash

-- name: blob_exists
SELECT 1 FROM blobs WHERE tenant = :tenant AND conversation = :conversation AND hash = :hash

-- name: blobs
-- Those that events show, whether or not they are there.
SELECT DISTINCT hash FROM blob_uses WHERE tenant = :tenant AND conversation = :conversation ORDER BY hash

-- == reading ==

-- name: events_up
-- One segment, oldest first.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq BETWEEN :first AND :last
ORDER BY seq LIMIT :limit

-- name: events_down
-- One segment, newest first.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq BETWEEN :first AND :last
ORDER BY seq DESC LIMIT :limit

-- name: said_up
-- The current branch of a user's conversation, oldest first: whose it is and a page of it, in one question.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation
    AND branch = (SELECT current FROM conversations
        WHERE tenant = :tenant AND conversation = :conversation AND "user" = :user AND erased IS NULL)
    AND seq BETWEEN :first AND :last
ORDER BY seq LIMIT :limit

-- name: said_down
-- The same, newest first.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation
    AND branch = (SELECT current FROM conversations
        WHERE tenant = :tenant AND conversation = :conversation AND "user" = :user AND erased IS NULL)
    AND seq BETWEEN :first AND :last
ORDER BY seq DESC LIMIT :limit

-- name: messages_up
-- Only messages. `spoken` never exceeds seq; said with >=, because PostgreSQL takes an equality for rare, and
-- would read and sort the whole branch.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq BETWEEN :first AND :last AND spoken >= seq
ORDER BY seq LIMIT :limit

-- name: messages_down
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq BETWEEN :first AND :last AND spoken >= seq
ORDER BY seq DESC LIMIT :limit

-- name: events_of_line
-- The events of several segments: a JSON object, by branch the first seq and the last (first * 2^31 + last). Each is
-- looked up by itself: OFFSET 0 keeps PostgreSQL from reading the whole conversation for them, and SQLite is given a plain
-- join, which it makes in this order.
SELECT e.branch, e.seq, e.id, e.kind, e.time, e.turn, e.session, e.tokens, e.settled, e.body
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.seq BETWEEN CAST(CAST(j.value AS text) AS bigint) >> 31
            AND CAST(CAST(j.value AS text) AS bigint) & 2147483647
    OFFSET 0) AS e
WHERE e.seq > 0

-- name: messages_of_line
-- Only messages.
SELECT e.branch, e.seq, e.id, e.kind, e.time, e.turn, e.session, e.tokens, e.settled, e.body
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.seq BETWEEN CAST(CAST(j.value AS text) AS bigint) >> 31
            AND CAST(CAST(j.value AS text) AS bigint) & 2147483647
    OFFSET 0) AS e
WHERE e.spoken >= e.seq

-- name: markers_of_line
-- The markers of one kind in several segments.
SELECT e.branch, e.seq, e.id, e.kind, e.time, e.turn, e.session, e.tokens, e.settled, e.body
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.seq BETWEEN CAST(CAST(j.value AS text) AS bigint) >> 31
            AND CAST(CAST(j.value AS text) AS bigint) & 2147483647
        AND e.spoken <> e.seq AND e.kind = :kind
    OFFSET 0) AS e
WHERE e.seq > 0

-- name: newest_of_kind
-- By branch and last seq, in a JSON object, the newest marker of a kind up to there.
SELECT CAST(j.key AS integer), (
        SELECT e.seq FROM events e
        WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
            AND e.spoken <> e.seq AND e.kind = :kind AND e.seq <= CAST(CAST(j.value AS text) AS integer)
        ORDER BY e.seq DESC LIMIT 1)
FROM json_each(:pieces) AS j

-- name: tail
-- The events of the newest turns of a segment: from the first event of the turn that `skip` others follow, or
-- from the segment's beginning where it has not so many.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq BETWEEN (SELECT coalesce((
        SELECT seq FROM events
        WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch AND turn_first = seq
        ORDER BY settled_before DESC, seq DESC LIMIT 1 OFFSET :skip), :first)) AND :last
ORDER BY seq

-- name: tail_of_line
-- The same where the newest turns may reach into ancestors: unless the branch itself has enough of them (`past_turn` is the
-- last before it), also those of several segments.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq BETWEEN (SELECT coalesce((
        SELECT seq FROM events
        WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch AND turn_first = seq
        ORDER BY settled_before DESC, seq DESC LIMIT 1 OFFSET :skip), :first)) AND :last
UNION ALL
SELECT e.branch, e.seq, e.id, e.kind, e.time, e.turn, e.session, e.tokens, e.settled, e.body
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.seq BETWEEN CAST(CAST(j.value AS text) AS bigint) >> 31
            AND CAST(CAST(j.value AS text) AS bigint) & 2147483647
    OFFSET 0) AS e
WHERE CAST(:past_turn AS integer) > (SELECT turn FROM events WHERE tenant = :tenant AND conversation = :conversation
        AND branch = :branch ORDER BY seq DESC LIMIT 1) - CAST(:turns AS integer)
    AND e.turn > (SELECT turn FROM events WHERE tenant = :tenant AND conversation = :conversation
        AND branch = :branch ORDER BY seq DESC LIMIT 1) - CAST(:turns AS integer)

-- name: tail_of_long_line
-- And of one large segment, from the first event of the turn that `large_skip` others follow.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq BETWEEN (SELECT coalesce((
        SELECT seq FROM events
        WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch AND turn_first = seq
        ORDER BY settled_before DESC, seq DESC LIMIT 1 OFFSET :skip), :first)) AND :last
UNION ALL
SELECT e.branch, e.seq, e.id, e.kind, e.time, e.turn, e.session, e.tokens, e.settled, e.body
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.seq BETWEEN CAST(CAST(j.value AS text) AS bigint) >> 31
            AND CAST(CAST(j.value AS text) AS bigint) & 2147483647
    OFFSET 0) AS e
WHERE CAST(:past_turn AS integer) > (SELECT turn FROM events WHERE tenant = :tenant AND conversation = :conversation
        AND branch = :branch ORDER BY seq DESC LIMIT 1) - CAST(:turns AS integer)
    AND e.turn > (SELECT turn FROM events WHERE tenant = :tenant AND conversation = :conversation
        AND branch = :branch ORDER BY seq DESC LIMIT 1) - CAST(:turns AS integer)
UNION ALL
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE CAST(:past_turn AS integer) > (SELECT turn FROM events WHERE tenant = :tenant AND conversation = :conversation
        AND branch = :branch ORDER BY seq DESC LIMIT 1) - CAST(:turns AS integer)
    AND tenant = :tenant AND conversation = :conversation AND branch = :large
    AND seq BETWEEN (SELECT coalesce((
        SELECT seq FROM events
        WHERE tenant = :tenant AND conversation = :conversation AND branch = :large AND turn_first = seq
            AND +seq <= :large_last AND settled_before <= CAST(:high AS bigint)
        ORDER BY settled_before DESC, seq DESC LIMIT 1 OFFSET :large_skip), :large_first)) AND :large_last
    AND turn > (SELECT turn FROM events WHERE tenant = :tenant AND conversation = :conversation
        AND branch = :branch ORDER BY seq DESC LIMIT 1) - CAST(:turns AS integer)

-- name: folds
-- One segment with everything that was folded, oldest first: for checking.
SELECT kind, body, seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before,
    importance, left_importance
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq BETWEEN :first AND :last
ORDER BY seq LIMIT :limit

-- name: turns_down
-- The heads of the first events of turns, newest first. The sum before a turn never falls along a line, so the
-- bounds in tokens are the bounds in events; `+seq` keeps the planners from walking the index on seq instead.
-- The last two columns say how the turn before was left: its state, and when something was last said in it.
SELECT seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before,
    importance, left_importance,
    (SELECT p.state FROM events p WHERE p.tenant = events.tenant AND p.conversation = events.conversation
        AND p.branch = events.branch AND p.seq = events.seq - 1),
    (SELECT p.spoken_time FROM events p WHERE p.tenant = events.tenant AND p.conversation = events.conversation
        AND p.branch = events.branch AND p.seq = events.seq - 1)
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND turn_first = seq AND +seq BETWEEN :first AND :last
    AND settled_before BETWEEN CAST(:low AS bigint) AND CAST(:high AS bigint)
ORDER BY settled_before DESC, seq DESC LIMIT :limit

-- name: turns_up
SELECT seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before,
    importance, left_importance,
    (SELECT p.state FROM events p WHERE p.tenant = events.tenant AND p.conversation = events.conversation
        AND p.branch = events.branch AND p.seq = events.seq - 1),
    (SELECT p.spoken_time FROM events p WHERE p.tenant = events.tenant AND p.conversation = events.conversation
        AND p.branch = events.branch AND p.seq = events.seq - 1)
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND turn_first = seq AND +seq BETWEEN :first AND :last
    AND settled_before BETWEEN CAST(:low AS bigint) AND CAST(:high AS bigint)
ORDER BY settled_before, seq LIMIT :limit

-- name: sessions_down
-- The heads of the first events of sessions, newest first.
SELECT seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before,
    importance, left_importance,
    (SELECT p.state FROM events p WHERE p.tenant = events.tenant AND p.conversation = events.conversation
        AND p.branch = events.branch AND p.seq = events.seq - 1),
    (SELECT p.spoken_time FROM events p WHERE p.tenant = events.tenant AND p.conversation = events.conversation
        AND p.branch = events.branch AND p.seq = events.seq - 1)
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND session_first = seq AND +seq BETWEEN :first AND :last
    AND session BETWEEN CAST(:low AS bigint) AND CAST(:high AS bigint)
ORDER BY session DESC LIMIT :limit

-- name: sessions_up
SELECT seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before,
    importance, left_importance,
    (SELECT p.state FROM events p WHERE p.tenant = events.tenant AND p.conversation = events.conversation
        AND p.branch = events.branch AND p.seq = events.seq - 1),
    (SELECT p.spoken_time FROM events p WHERE p.tenant = events.tenant AND p.conversation = events.conversation
        AND p.branch = events.branch AND p.seq = events.seq - 1)
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND session_first = seq AND +seq BETWEEN :first AND :last
    AND session BETWEEN CAST(:low AS bigint) AND CAST(:high AS bigint)
ORDER BY session LIMIT :limit

-- name: turns_of_line
-- The heads of the first events of turns in several segments.
SELECT e.seq, e.id, e.time, e.turn, e.turn_first, e.state, e.pending, e.session, e.session_first, e.spoken, e.spoken_time,
    e.cleared, e.cleared_sum, e.tokens, e.settled, e.tokens_before, e.settled_before, e.messages_before,
    e.importance, e.left_importance,
    (SELECT p.state FROM events p WHERE p.tenant = e.tenant AND p.conversation = e.conversation
        AND p.branch = e.branch AND p.seq = e.seq - 1),
    (SELECT p.spoken_time FROM events p WHERE p.tenant = e.tenant AND p.conversation = e.conversation
        AND p.branch = e.branch AND p.seq = e.seq - 1)
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.seq BETWEEN CAST(CAST(j.value AS text) AS bigint) >> 31
            AND CAST(CAST(j.value AS text) AS bigint) & 2147483647
    OFFSET 0) AS e
WHERE e.turn_first = e.seq

-- name: sessions_of_line
-- The heads of the first events of sessions in several segments.
SELECT e.seq, e.id, e.time, e.turn, e.turn_first, e.state, e.pending, e.session, e.session_first, e.spoken, e.spoken_time,
    e.cleared, e.cleared_sum, e.tokens, e.settled, e.tokens_before, e.settled_before, e.messages_before,
    e.importance, e.left_importance,
    (SELECT p.state FROM events p WHERE p.tenant = e.tenant AND p.conversation = e.conversation
        AND p.branch = e.branch AND p.seq = e.seq - 1),
    (SELECT p.spoken_time FROM events p WHERE p.tenant = e.tenant AND p.conversation = e.conversation
        AND p.branch = e.branch AND p.seq = e.seq - 1)
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.seq BETWEEN CAST(CAST(j.value AS text) AS bigint) >> 31
            AND CAST(CAST(j.value AS text) AS bigint) & 2147483647
    OFFSET 0) AS e
WHERE e.session_first = e.seq

-- name: markers_down
-- The markers of one kind in a segment, newest first.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND spoken <> seq AND kind = :kind AND seq BETWEEN :first AND :last
ORDER BY seq DESC LIMIT :limit

-- name: asking
-- The tool calls of a conversation that made their turn wait.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND kind = 'tool_call' AND state = 'waiting' AND seq >= :first
ORDER BY seq LIMIT :limit

-- == the window ==

-- name: sight
-- What a context is planned from, as of seq `last` on a branch: which branch is current, the conversation's settings, how
-- often something of it was redacted, and the user's notes with its agent and since when there are any; the newest marker
-- of each kind that matters to a context and the kind of the very first event, because what is not there need not be asked
-- for; the sums before the newest turn, if that begins here; and the head. Not max(seq): PostgreSQL would read every marker
-- of a kind that it takes for rare.
SELECT c.current, c.settings, c.forgotten,
    (SELECT body FROM documents WHERE tenant = :tenant AND "user" = c."user" AND name = :notes
        ORDER BY version DESC LIMIT 1),
    (SELECT time FROM documents WHERE tenant = :tenant AND "user" = c."user" AND name = :notes AND version = 1),
    (SELECT seq FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND spoken <> seq AND kind = 'settings' AND seq BETWEEN :first AND :last ORDER BY seq DESC LIMIT 1),
    (SELECT seq FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND spoken <> seq AND kind = 'pin' AND seq BETWEEN :first AND :last ORDER BY seq DESC LIMIT 1),
    (SELECT seq FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND spoken <> seq AND kind = 'brief_updated' AND seq BETWEEN :first AND :last ORDER BY seq DESC LIMIT 1),
    (SELECT seq FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND spoken <> seq AND kind = 'summary' AND seq BETWEEN :first AND :last ORDER BY seq DESC LIMIT 1),
    (SELECT seq FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND spoken <> seq AND kind = 'session_ended' AND seq BETWEEN :first AND :last ORDER BY seq DESC LIMIT 1),
    (SELECT seq FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND spoken <> seq AND kind = 'canvas' AND seq BETWEEN :first AND :last ORDER BY seq DESC LIMIT 1),
    (SELECT seq FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND spoken <> seq AND kind = 'flow_completed' AND seq BETWEEN :first AND :last ORDER BY seq DESC LIMIT 1),
    (SELECT kind FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :opening AND seq = 1),
    f.seq, f.settled_before, f.turn, f.messages_before, f.tokens_before,
    h.seq, h.id, h.time, h.turn, h.turn_first, h.state, h.pending, h.session, h.session_first, h.spoken, h.spoken_time,
    h.cleared, h.cleared_sum, h.tokens, h.settled, h.tokens_before, h.settled_before, h.messages_before,
    h.importance, h.left_importance
FROM conversations c
LEFT JOIN events h ON h.tenant = :tenant AND h.conversation = :conversation AND h.branch = :branch AND h.seq = (
    SELECT seq FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND seq BETWEEN :first AND :last ORDER BY seq DESC LIMIT 1)
LEFT JOIN events f ON f.tenant = :tenant AND f.conversation = :conversation AND f.branch = :branch
    AND f.seq = h.turn_first
WHERE c.tenant = :tenant AND c.conversation = :conversation AND c.erased IS NULL AND c.archived IS NULL

-- name: news
-- What `sight` would say of a branch now, told to whoever knows what it said before: the first five columns of that, and a
-- row for each event from seq `unread` on, with its head, or one without any. The body only of what a request may tell.
SELECT c.current, c.settings, c.forgotten,
    (SELECT body FROM documents WHERE tenant = :tenant AND "user" = c."user" AND name = :notes
        ORDER BY version DESC LIMIT 1),
    (SELECT time FROM documents WHERE tenant = :tenant AND "user" = c."user" AND name = :notes AND version = 1),
    n.branch, n.seq, n.id, n.kind, n.time, n.turn, n.session, n.tokens, n.settled,
    CASE WHEN n.spoken >= n.seq OR n.kind IN ('canvas', 'flow_completed') THEN n.body END,
    n.seq, n.id, n.time, n.turn, n.turn_first, n.state, n.pending, n.session, n.session_first, n.spoken, n.spoken_time,
    n.cleared, n.cleared_sum, n.tokens, n.settled, n.tokens_before, n.settled_before, n.messages_before,
    n.importance, n.left_importance
FROM conversations c
LEFT JOIN events n ON n.tenant = :tenant AND n.conversation = :conversation AND n.branch = :branch AND n.seq >= :unread
WHERE c.tenant = :tenant AND c.conversation = :conversation AND c.erased IS NULL AND c.archived IS NULL

-- name: window_ahead
-- All that a window begun by size mostly comes to, in one question. Turns first, in the columns of events: -1 those that
-- begin in the step of the grid in which the first turn begins that has at least `low` tokens before it, -2 the last before
-- that step. The window begins with the last of the step that is not the newest. Then of a kind of memory -3 the newest
-- version, -4 the first after the last message before the window, and -5 that message. Then the messages, up to seq `said`.
WITH found AS MATERIALIZED (
    SELECT seq, settled_before, turn, messages_before FROM events
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND turn_first = seq AND +seq BETWEEN :first AND :last
        AND settled_before BETWEEN CAST(:low AS bigint) AND CAST(:high AS bigint)
    ORDER BY settled_before, seq LIMIT 1
), grid AS MATERIALIZED (
    SELECT CAST(:floor AS bigint) + (settled_before - CAST(:floor AS bigint) + CAST(:step AS bigint) - 1)
        / CAST(:step AS bigint) * CAST(:step AS bigint) AS line
    FROM found
), begun AS MATERIALIZED (
    SELECT seq, settled_before, turn, messages_before FROM events
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND turn_first = seq AND +seq BETWEEN :first AND :previous
        AND settled_before BETWEEN CAST(:floor AS bigint) AND (SELECT line FROM grid)
    ORDER BY settled_before DESC, seq DESC LIMIT 1
), told AS MATERIALIZED (
    SELECT spoken FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND seq = (SELECT seq - 1 FROM begun) AND :kind <> ''
)
SELECT -1 AS branch, s.seq, '' AS id, '' AS kind, s.settled_before AS time, s.turn, 0 AS session,
    s.messages_before AS tokens, 0 AS settled, CAST(NULL AS bytea) AS body FROM (
    SELECT seq, settled_before, turn, messages_before FROM events
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND turn_first = seq AND +seq BETWEEN :first AND :last
        AND settled_before BETWEEN (SELECT line - CAST(:step AS bigint) + 1 FROM grid) AND (SELECT line FROM grid)
    ORDER BY settled_before, seq) AS s
UNION ALL
SELECT -2, seq, '', '', settled_before, turn, 0, messages_before, 0, CAST(NULL AS bytea) FROM (
    SELECT seq, settled_before, turn, messages_before FROM events
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND turn_first = seq AND +seq BETWEEN :first AND :previous
        AND settled_before >= CAST(:floor AS bigint)
        AND settled_before < (SELECT line - CAST(:step AS bigint) + 1 FROM grid)
    ORDER BY settled_before DESC, seq DESC LIMIT 1) AS before_step
UNION ALL
SELECT -3, n.seq, n.id, n.kind, n.time, n.turn, n.session, n.tokens, n.settled, n.body FROM (
    SELECT e.seq, e.id, e.kind, e.time, e.turn, e.session, e.tokens, e.settled, e.body FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = :branch
        AND e.spoken <> e.seq AND e.kind = :kind AND e.seq BETWEEN :first AND :last
    ORDER BY e.seq DESC LIMIT 1) AS n
UNION ALL
SELECT -4, n.seq, n.id, n.kind, n.time, n.turn, n.session, n.tokens, n.settled, n.body FROM (
    SELECT e.seq, e.id, e.kind, e.time, e.turn, e.session, e.tokens, e.settled, e.body FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = :branch
        AND e.spoken <> e.seq AND e.kind = :kind AND e.seq <= :last AND e.seq > (SELECT spoken FROM told)
    ORDER BY e.seq LIMIT 1) AS n
UNION ALL
SELECT -5, spoken, '', '', 0, 0, 0, 0, 0, CAST(NULL AS bytea) FROM told
UNION ALL
SELECT m.branch, m.seq, m.id, m.kind, m.time, m.turn, m.session, m.tokens, m.settled, m.body FROM (
    SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body FROM events
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND seq BETWEEN (SELECT seq FROM begun) AND :said AND spoken >= seq
    ORDER BY seq) AS m

-- name: start_from
-- The first turn of a segment with at least `low` tokens before it, and the last with less, up to seq `previous`.
-- None has less than `floor`: said, so that a segment that begins after a clear is not searched for beyond it.
SELECT seq, settled_before, turn, messages_before FROM (
    SELECT seq, settled_before, turn, messages_before FROM events
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND turn_first = seq AND +seq BETWEEN :first AND :last
        AND settled_before BETWEEN CAST(:low AS bigint) AND CAST(:high AS bigint)
    ORDER BY settled_before, seq LIMIT 1) AS found
UNION ALL
SELECT seq, settled_before, turn, messages_before FROM (
    SELECT seq, settled_before, turn, messages_before FROM events
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND turn_first = seq AND +seq BETWEEN :first AND :previous
        AND settled_before >= CAST(:floor AS bigint) AND settled_before < CAST(:low AS bigint)
    ORDER BY settled_before DESC, seq DESC LIMIT 1) AS less

-- name: start_upto
-- The last turn of a segment with at most `high` tokens before it, and at least `floor`.
SELECT seq, settled_before, turn, messages_before FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND turn_first = seq AND +seq BETWEEN :first AND :last
    AND settled_before BETWEEN CAST(:floor AS bigint) AND CAST(:high AS bigint)
ORDER BY settled_before DESC, seq DESC LIMIT 1

-- name: asked_down
-- The turns of a segment that a user message begins, newest first.
SELECT seq, settled_before, turn, messages_before FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND turn_first = seq AND +seq BETWEEN :first AND :last AND kind = 'user'
    AND settled_before BETWEEN CAST(:low AS bigint) AND CAST(:high AS bigint)
ORDER BY settled_before DESC, seq DESC LIMIT :limit

-- name: asked_of_line
-- The same in several segments.
SELECT e.seq, e.settled_before, e.turn, e.messages_before
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.seq BETWEEN CAST(CAST(j.value AS text) AS bigint) >> 31
            AND CAST(CAST(j.value AS text) AS bigint) & 2147483647
    OFFSET 0) AS e
WHERE e.turn_first = e.seq AND e.kind = 'user'

-- name: turns_of_messages
-- In which turns the newest messages of a segment are, one row a message, newest first.
SELECT turn_first FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq BETWEEN :first AND :last AND spoken >= seq
ORDER BY seq DESC LIMIT :limit

-- name: turns_of_spoken
-- The same, counting user and assistant messages only. That they are spoken is left unsaid: PostgreSQL would take them
-- for rarer than they are, and sort the branch.
SELECT turn_first FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq BETWEEN :first AND :last AND kind IN ('user', 'assistant')
ORDER BY seq DESC LIMIT :limit

-- name: turns_of_some_messages
-- The same of some events.
SELECT e.turn_first
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.seq BETWEEN CAST(CAST(j.value AS text) AS bigint) >> 31
            AND CAST(CAST(j.value AS text) AS bigint) & 2147483647
    OFFSET 0) AS e
WHERE e.spoken >= e.seq

-- name: turns_of_some_spoken
SELECT e.turn_first
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.seq BETWEEN CAST(CAST(j.value AS text) AS bigint) >> 31
            AND CAST(CAST(j.value AS text) AS bigint) & 2147483647
    OFFSET 0) AS e
WHERE e.kind IN ('user', 'assistant')

-- name: importance_below
-- The next lower importance of any turn on a branch. None is below 0; said, because the index says it.
SELECT left_importance FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND turn_first = seq AND left_importance >= 0 AND left_importance < CAST(:below AS integer)
ORDER BY left_importance DESC LIMIT 1

-- name: turns_by_importance
-- The turns of one importance in a segment, newest first: each is found by the turn that follows it. Its own first
-- event may be on an ancestor, where the last three columns are not found.
SELECT s.seq, s.settled_before, p.turn_first, f.settled_before, f.turn, f.messages_before
FROM events s
CROSS JOIN LATERAL (
    SELECT p.* FROM events AS p
    WHERE p.tenant = s.tenant AND p.conversation = s.conversation AND p.branch = s.branch AND p.seq = s.seq - 1
    OFFSET 0) AS p
LEFT JOIN events f ON f.tenant = s.tenant AND f.conversation = s.conversation AND f.branch = s.branch
    AND f.seq = p.turn_first
WHERE s.tenant = :tenant AND s.conversation = :conversation AND s.branch = :branch
    AND s.turn_first = s.seq AND s.left_importance >= 0 AND s.left_importance = CAST(:importance AS integer)
    AND s.seq BETWEEN :first AND :last
ORDER BY s.seq DESC LIMIT :limit

-- name: turns_by_importance_among
-- The same in several segments, without the last three columns.
SELECT e.seq, e.settled_before, (
        SELECT p.turn_first FROM events p
        WHERE p.tenant = :tenant AND p.conversation = :conversation AND p.branch = e.branch AND p.seq = e.seq - 1
    ), NULL, NULL, NULL
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.seq BETWEEN CAST(CAST(j.value AS text) AS bigint) >> 31
            AND CAST(CAST(j.value AS text) AS bigint) & 2147483647
    OFFSET 0) AS e
WHERE e.turn_first = e.seq AND e.left_importance = CAST(:importance AS integer)

-- name: levels
-- By branch and last seq, in a JSON object, which importance turns have that are followed by another, and the newest that
-- follows one of each.
WITH RECURSIVE levels (branch, last, level) AS (
    SELECT CAST(j.key AS integer), CAST(CAST(j.value AS text) AS integer), 101 FROM json_each(:pieces) AS j
    UNION ALL
    SELECT branch, last, (
        SELECT e.left_importance FROM events e
        WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = levels.branch
            AND e.turn_first = e.seq AND e.left_importance >= 0 AND e.left_importance < levels.level
        ORDER BY e.left_importance DESC LIMIT 1)
    FROM levels WHERE level IS NOT NULL
)
SELECT branch, level, (
        SELECT e.seq FROM events e
        WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = levels.branch
            AND e.turn_first = e.seq AND e.left_importance >= 0 AND e.left_importance = levels.level
            AND e.seq <= levels.last
        ORDER BY e.seq DESC LIMIT 1)
FROM levels WHERE level < 101

-- name: heads_among
-- The heads of some events: a JSON object, by seq the branch.
SELECT e.seq, e.id, e.time, e.turn, e.turn_first, e.state, e.pending, e.session, e.session_first, e.spoken, e.spoken_time,
    e.cleared, e.cleared_sum, e.tokens, e.settled, e.tokens_before, e.settled_before, e.messages_before,
    e.importance, e.left_importance
FROM json_each(:spots) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation
        AND e.branch = CAST(CAST(j.value AS text) AS integer) AND e.seq = CAST(j.key AS integer)
    OFFSET 0) AS e
WHERE e.seq > 0

-- name: markers_up
-- The markers of one kind in a segment, oldest first.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND spoken <> seq AND kind = :kind AND seq BETWEEN :first AND :last
ORDER BY seq LIMIT :limit

-- name: versions_at
-- What mostly decides which version of memory goes with a cutoff, where one segment has it all: the newest, and the first
-- after the last message up to event `before_seq`, which stands in the last column. Both may be the same.
SELECT n.branch, n.seq, n.id, n.kind, n.time, n.turn, n.session, n.tokens, n.settled, n.body, (
        SELECT spoken FROM events
        WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch AND seq = :before_seq
    )
FROM (
    SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body FROM events
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND spoken <> seq AND kind = :kind AND seq BETWEEN :first AND :last
    ORDER BY seq DESC LIMIT 1
) AS n
UNION ALL
SELECT f.branch, f.seq, f.id, f.kind, f.time, f.turn, f.session, f.tokens, f.settled, f.body, 0
FROM (
    SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body FROM events
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND spoken <> seq AND kind = :kind AND seq <= :last AND seq > (
            SELECT spoken FROM events
            WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch AND seq = :before_seq
        )
    ORDER BY seq LIMIT 1
) AS f

-- name: versions_along
-- The newest version of memory, by its seq, and the first of its kind in a segment. Both may be the same.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :newest_branch AND seq = :newest_seq
UNION ALL
SELECT f.branch, f.seq, f.id, f.kind, f.time, f.turn, f.session, f.tokens, f.settled, f.body
FROM (
    SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body FROM events
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
        AND spoken <> seq AND kind = :kind AND seq BETWEEN :first AND :last
    ORDER BY seq LIMIT 1
) AS f

-- == forgetting ==

-- name: redact_event
UPDATE events SET body = :body
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq = :seq

-- name: forget_receipts
-- A hash of what was said could confirm a guess at it.
UPDATE receipts SET hash = ''
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND :seq BETWEEN first AND last

-- name: forget_blob_uses
DELETE FROM blob_uses
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq = :seq

-- name: forget_unused_blobs
DELETE FROM blobs
WHERE tenant = :tenant AND conversation = :conversation AND NOT EXISTS (
    SELECT 1 FROM blob_uses u
    WHERE u.tenant = blobs.tenant AND u.conversation = blobs.conversation AND u.hash = blobs.hash)

-- name: erase_blob_uses
DELETE FROM blob_uses WHERE tenant = :tenant AND conversation = :conversation

-- name: erase_blobs
DELETE FROM blobs WHERE tenant = :tenant AND conversation = :conversation

-- name: erase_receipts
DELETE FROM receipts
WHERE tenant = :tenant AND conversation = :conversation

-- name: count_forgotten_call
-- What a model call that is about to be forgotten has taken of the day that runs.
INSERT INTO forgotten_tokens (tenant, "user", day, tokens)
SELECT tenant, "user", :day, CAST(sum(input + output) AS bigint) FROM model_calls
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch AND seq = :seq
    AND time >= CAST(:day AS bigint) * 86400000000
GROUP BY tenant, "user"
ON CONFLICT (tenant, "user", day) DO UPDATE SET tokens = forgotten_tokens.tokens + excluded.tokens

-- name: count_forgotten_calls
-- The same of all model calls of a conversation.
INSERT INTO forgotten_tokens (tenant, "user", day, tokens)
SELECT tenant, "user", :day, CAST(sum(input + output) AS bigint) FROM model_calls
WHERE tenant = :tenant AND conversation = :conversation AND time >= CAST(:day AS bigint) * 86400000000
GROUP BY tenant, "user"
ON CONFLICT (tenant, "user", day) DO UPDATE SET tokens = forgotten_tokens.tokens + excluded.tokens

-- name: count_forgotten_archived_calls
-- The same where it is archived.
INSERT INTO forgotten_tokens (tenant, "user", day, tokens)
SELECT tenant, "user", :day, CAST(sum(input + output) AS bigint) FROM archived_calls
WHERE tenant = :tenant AND conversation = :conversation AND time >= CAST(:day AS bigint) * 86400000000
GROUP BY tenant, "user"
ON CONFLICT (tenant, "user", day) DO UPDATE SET tokens = forgotten_tokens.tokens + excluded.tokens

-- name: forget_older_tokens
-- Of days that are over nobody asks.
DELETE FROM forgotten_tokens WHERE tenant = :tenant AND day < :day

-- name: forget_tokens_of_user
DELETE FROM forgotten_tokens WHERE tenant = :tenant AND "user" = :user

-- name: forget_model_call
DELETE FROM model_calls
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq = :seq

-- name: erase_model_calls
DELETE FROM model_calls WHERE tenant = :tenant AND conversation = :conversation

-- name: erase_leases
-- Those whose names begin with a prefix, which sorts before `end`.
DELETE FROM leases WHERE tenant = :tenant AND name >= :prefix AND name < :end

-- name: erase_events
DELETE FROM events WHERE tenant = :tenant AND conversation = :conversation

-- name: erase_branches
DELETE FROM branches WHERE tenant = :tenant AND conversation = :conversation

-- name: erase_conversation
-- The tombstone: that there was one, and when it was erased.
UPDATE conversations
SET name = '', goal = '', settings = '{}', alias = NULL, metadata = '{}', archived = NULL, erased = :time
WHERE tenant = :tenant AND conversation = :conversation

-- name: forget_user
UPDATE conversations SET "user" = '' WHERE tenant = :tenant AND "user" = :user AND erased IS NOT NULL

-- name: unname
-- Where the name was taken from what is forgotten.
UPDATE conversations SET name = '' WHERE tenant = :tenant AND conversation = :conversation AND name = :name

-- name: memory_since
-- What memory made on some branches, in a JSON object each with the seq after which, and is not redacted.
SELECT e.branch, e.seq, e.kind
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.spoken <> e.seq AND e.kind IN ('brief_updated', 'summary', 'session_ended')
        AND e.seq > CAST(CAST(j.value AS text) AS bigint)
    OFFSET 0) AS e
WHERE substr(e.body, 1, 18) <> :tombstone

-- name: failures_since
-- Events on some branches, in a JSON object each with the seq after which, that say why something failed and are not
-- redacted.
SELECT e.branch, e.seq, e.kind, e.body
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
        AND e.spoken <> e.seq AND e.kind IN ('agent_killed', 'schedule_failed')
        AND e.seq > CAST(CAST(j.value AS text) AS bigint)
    OFFSET 0) AS e
WHERE substr(e.body, 1, 18) <> :tombstone

-- name: failed_calls_since
-- The same of model calls.
SELECT e.branch, e.seq, e.kind, e.body
FROM json_each(:pieces) AS j
CROSS JOIN LATERAL (
    SELECT m.* FROM model_calls AS m
    WHERE m.tenant = :tenant AND m.conversation = :conversation AND m.branch = CAST(j.key AS integer)
        AND m.failed <> 0 AND m.seq > CAST(CAST(j.value AS text) AS bigint)
    OFFSET 0) AS m
LEFT JOIN events AS e ON e.tenant = m.tenant AND e.conversation = m.conversation AND e.branch = m.branch AND e.seq = m.seq
WHERE substr(e.body, 1, 18) <> :tombstone

-- name: insert_quote
INSERT INTO quotes (tenant, conversation, branch, seq, of_conversation, of_branch, of_seq)
VALUES (:tenant, :conversation, :branch, :seq, :of_conversation, :of_branch, :of_seq)
ON CONFLICT DO NOTHING

-- name: quoted_by
-- The events that quote another, with their kinds, in the conversations of the user whose it is, archived ones too: of these
-- the kind is that of most.
SELECT q.conversation, q.branch, q.seq, e.kind FROM quotes q
JOIN conversations a ON a.tenant = q.tenant AND a.conversation = q.of_conversation
JOIN conversations c ON c.tenant = q.tenant AND c.conversation = q.conversation AND c."user" = a."user"
JOIN events e ON e.tenant = q.tenant AND e.conversation = q.conversation AND e.branch = q.branch AND e.seq = q.seq
WHERE q.tenant = :tenant AND q.of_conversation = :conversation AND q.of_branch = :branch AND q.of_seq = :seq
UNION ALL
SELECT q.conversation, q.branch, q.seq, 'tool_result' FROM archived_quotes q
JOIN conversations a ON a.tenant = q.tenant AND a.conversation = q.of_conversation
JOIN conversations c ON c.tenant = q.tenant AND c.conversation = q.conversation AND c."user" = a."user"
WHERE q.tenant = :tenant AND q.of_conversation = :conversation AND q.of_branch = :branch AND q.of_seq = :seq

-- name: quoting
-- The events in other conversations that quote anything of one, in those of the user whose it is.
SELECT DISTINCT q.conversation, q.branch, q.seq FROM quotes q
JOIN conversations a ON a.tenant = q.tenant AND a.conversation = q.of_conversation
JOIN conversations c ON c.tenant = q.tenant AND c.conversation = q.conversation AND c."user" = a."user"
WHERE q.tenant = :tenant AND q.of_conversation = :conversation AND q.conversation <> :conversation
UNION
SELECT q.conversation, q.branch, q.seq FROM archived_quotes q
JOIN conversations a ON a.tenant = q.tenant AND a.conversation = q.of_conversation
JOIN conversations c ON c.tenant = q.tenant AND c.conversation = q.conversation AND c."user" = a."user"
WHERE q.tenant = :tenant AND q.of_conversation = :conversation AND q.conversation <> :conversation

-- name: quoting_unknown
-- The results of the same user's, made at a time or later, of which it is not known what they quote.
SELECT q.conversation, q.branch, q.seq FROM quotes q
JOIN conversations a ON a.tenant = q.tenant AND a.conversation = :conversation
JOIN conversations c ON c.tenant = q.tenant AND c.conversation = q.conversation AND c."user" = a."user"
JOIN events e ON e.tenant = q.tenant AND e.conversation = q.conversation AND e.branch = q.branch AND e.seq = q.seq
WHERE q.tenant = :tenant AND q.of_conversation = '' AND e.time >= :time
UNION ALL
SELECT q.conversation, q.branch, q.seq FROM archived_quotes q
JOIN conversations a ON a.tenant = q.tenant AND a.conversation = :conversation
JOIN conversations c ON c.tenant = q.tenant AND c.conversation = q.conversation AND c."user" = a."user"
WHERE q.tenant = :tenant AND q.of_conversation = '' AND q.time >= :time

-- name: hold_quoted
-- Whether the conversation of which something is quoted was erased, if it is of the same user's; nobody redacts anything
-- of it until what quotes it is written.
UPDATE conversations SET forgotten = forgotten
WHERE tenant = :tenant AND conversation = :conversation
    AND "user" = (SELECT o."user" FROM conversations o WHERE o.tenant = :tenant AND o.conversation = :own)
RETURNING CASE WHEN erased IS NULL THEN 0 ELSE 1 END

-- name: is_redacted
SELECT 1 FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch AND seq = :seq
    AND substr(body, 1, 18) = :tombstone

-- name: quotes_of_events
-- What the events on a branch quote, from one seq to another, and whether that was redacted or erased, if it is of the
-- same user's.
SELECT q.seq, q.of_conversation, q.of_branch, q.of_seq, CASE WHEN a."user" = c."user"
    AND (a.erased IS NOT NULL OR substr(e.body, 1, 18) = :tombstone) THEN 1 ELSE 0 END
FROM quotes q
JOIN conversations c ON c.tenant = q.tenant AND c.conversation = q.conversation
LEFT JOIN conversations a ON a.tenant = q.tenant AND a.conversation = q.of_conversation
LEFT JOIN events e ON e.tenant = q.tenant AND e.conversation = q.of_conversation AND e.branch = q.of_branch
    AND e.seq = q.of_seq
WHERE q.tenant = :tenant AND q.conversation = :conversation AND q.branch = :branch
    AND q.seq BETWEEN :first AND :last

-- name: forget_quotes
DELETE FROM quotes WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch AND seq = :seq

-- name: owed_by_mirror
-- What a mirror has to follow, the oldest first.
SELECT tenant, conversation, mirror, time FROM mirrors_owe WHERE mirror = :mirror ORDER BY time LIMIT :limit

-- name: owed
-- What any mirror has to follow: for operators.
SELECT o.tenant, o.conversation, o.mirror, o.time, m.folder FROM mirrors_owe AS o JOIN mirrors AS m ON m.mirror = o.mirror
ORDER BY o.time LIMIT :limit

-- name: pay_mirror
DELETE FROM mirrors_owe
WHERE tenant = :tenant AND conversation = :conversation AND mirror = :mirror AND time = :time

-- name: mirrors
SELECT mirror, folder, seen FROM mirrors ORDER BY mirror

-- name: know_mirror
INSERT INTO mirrors (mirror, folder, seen) VALUES (:mirror, :folder, :seen)
ON CONFLICT (mirror) DO UPDATE SET folder = :folder, seen = :seen

-- name: forget_mirror_owed
DELETE FROM mirrors_owe WHERE mirror = :mirror

-- name: forget_mirror
DELETE FROM mirrors WHERE mirror = :mirror

-- name: imported
SELECT conversation FROM imports WHERE tenant = :tenant AND "user" = :user AND source = :source

-- name: insert_import
INSERT INTO imports (tenant, "user", source, conversation) VALUES (:tenant, :user, :source, :conversation)

-- name: erase_quotes
DELETE FROM quotes WHERE tenant = :tenant AND conversation = :conversation

-- name: canvases
-- By seq and branch, in a JSON object, the canvases that are kept of these events.
SELECT c.seq, c.body
FROM json_each(:spots) AS j
CROSS JOIN LATERAL (
    SELECT c.* FROM canvases AS c
    WHERE c.tenant = :tenant AND c.conversation = :conversation
        AND c.branch = CAST(CAST(j.value AS text) AS integer) AND c.seq = CAST(j.key AS integer)
    OFFSET 0) AS c
WHERE c.seq > 0

-- name: keep_canvas
INSERT INTO canvases (tenant, conversation, branch, seq, body)
VALUES (:tenant, :conversation, :branch, :seq, :body)
ON CONFLICT DO NOTHING

-- name: newest_canvases
-- By branch, the newest that is kept.
SELECT branch, max(seq) FROM canvases WHERE tenant = :tenant AND conversation = :conversation GROUP BY branch

-- name: forget_canvases
-- Every one that may have been folded from this event.
DELETE FROM canvases WHERE tenant = :tenant AND conversation = :conversation AND seq >= :seq

-- name: erase_canvases
DELETE FROM canvases WHERE tenant = :tenant AND conversation = :conversation

-- name: erase_imports
DELETE FROM imports WHERE tenant = :tenant AND conversation = :conversation

-- name: owe_mirrors
-- Something of a conversation was forgotten: every mirror has to follow.
INSERT INTO mirrors_owe (tenant, conversation, mirror, time)
SELECT CAST(:tenant AS text), CAST(:conversation AS text), mirror, CAST(:time AS bigint) FROM mirrors
WHERE true ON CONFLICT DO NOTHING

-- name: insert_forgetting
INSERT INTO forgetting (tenant, conversation, branch, seq, "user", what, time)
VALUES (:tenant, :conversation, :branch, :seq, :user, :what, :time)
ON CONFLICT DO NOTHING

-- name: forgetting
-- Of every tenant and user, the oldest first.
SELECT tenant, conversation, branch, seq, "user", what, time FROM forgetting ORDER BY time, what LIMIT :limit

-- name: being_erased
-- Whether a conversation is to be erased, or was just now.
SELECT 1 FROM forgetting WHERE tenant = :tenant AND conversation = :conversation AND what = 'conversation' LIMIT 1

-- name: forget_forgotten_user
UPDATE forgetting SET "user" = '' WHERE tenant = :tenant AND "user" = :user AND what = 'user'

-- name: end_forgetting
DELETE FROM forgetting
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch AND seq = :seq
    AND "user" = :user AND what = :what AND time = :time

-- name: erase_forgetting
-- Of a conversation that is erased as a whole.
DELETE FROM forgetting WHERE tenant = :tenant AND conversation = :conversation AND what IN ('event', 'conversation')

-- == checking ==

-- name: whose
SELECT "user", current, erased, settings, metadata, archived FROM conversations
WHERE tenant = :tenant AND conversation = :conversation

-- name: blob_uses
SELECT hash, branch, seq FROM blob_uses WHERE tenant = :tenant AND conversation = :conversation

-- name: unused_blobs
SELECT hash FROM blobs
WHERE tenant = :tenant AND conversation = :conversation AND NOT EXISTS (
    SELECT 1 FROM blob_uses u
    WHERE u.tenant = blobs.tenant AND u.conversation = blobs.conversation AND u.hash = blobs.hash)

-- name: receipts
SELECT key, branch, first, last, hash FROM receipts WHERE tenant = :tenant AND conversation = :conversation

-- name: recall_lasts
SELECT branch, last FROM recall_branches WHERE tenant = :tenant AND conversation = :conversation

-- name: strays
-- Of every tenant and user: rows of a branch, a conversation or a block that is not there, or is there no more. A lease
-- of turns is named turn/conversation/branch, where a conversation's id has 26 characters.
SELECT x.what, x.tenant, x.conversation, CAST(x.branch AS bigint)
FROM (
    SELECT DISTINCT 'events' AS what, tenant, conversation, branch FROM events
    UNION ALL
    SELECT DISTINCT 'receipts', tenant, conversation, branch FROM receipts
    UNION ALL
    SELECT DISTINCT 'blob_uses', tenant, conversation, branch FROM blob_uses
    UNION ALL
    SELECT DISTINCT 'model_calls', tenant, conversation, branch FROM model_calls
    UNION ALL
    SELECT DISTINCT 'quotes', tenant, conversation, branch FROM quotes
    UNION ALL
    SELECT DISTINCT 'canvases', tenant, conversation, branch FROM canvases
    UNION ALL
    SELECT DISTINCT 'reminders', tenant, conversation, branch FROM reminders
    UNION ALL
    SELECT DISTINCT 'recall_branches', tenant, conversation, branch FROM recall_branches) AS x
WHERE NOT EXISTS (SELECT 1 FROM branches b
    WHERE b.tenant = x.tenant AND b.conversation = x.conversation AND b.branch = x.branch)
UNION ALL
SELECT x.what, x.tenant, x.conversation, CAST(0 AS bigint)
FROM (
    SELECT DISTINCT 'branches' AS what, tenant, conversation FROM branches
    UNION ALL
    SELECT DISTINCT 'blobs', tenant, conversation FROM blobs
    UNION ALL
    SELECT DISTINCT 'schedules', tenant, conversation FROM schedules
    UNION ALL
    SELECT DISTINCT 'recall_conversations', tenant, conversation FROM recall_conversations
    UNION ALL
    SELECT DISTINCT 'partial replies', tenant, substr(name, 6, 26) FROM leases
    WHERE partial <> '' AND name LIKE 'turn/%') AS x
WHERE NOT EXISTS (SELECT 1 FROM conversations c
    WHERE c.tenant = x.tenant AND c.conversation = x.conversation AND c.erased IS NULL)
UNION ALL
SELECT 'recall_blocks', '', '', x.block FROM recall_blocks x
WHERE NOT EXISTS (SELECT 1 FROM recall_conversations c WHERE c.number = x.block >> 20)
UNION ALL
SELECT 'recall_words', '', '', x.block FROM (SELECT DISTINCT block FROM recall_words) AS x
WHERE NOT EXISTS (SELECT 1 FROM recall_blocks b WHERE b.block = x.block)

-- name: document_gaps
-- Of every tenant and user.
SELECT tenant, name, max(version), count(*) FROM documents GROUP BY tenant, "user", name
HAVING max(version) <> count(*)

-- == leases, documents, calibrations ==

-- name: children_left
-- The branches whose turn nobody runs any more though it was never given back, of those that begin with a command, as
-- children's do; of every tenant and user.
SELECT c.tenant, c."user", c.conversation, b.branch
FROM leases AS l CROSS JOIN conversations AS c CROSS JOIN branches AS b CROSS JOIN events AS e
WHERE l.name LIKE 'turn/%' AND l.until <= :now
    AND c.tenant = l.tenant AND c.conversation = substr(l.name, 6, 26) AND c.erased IS NULL
    AND b.tenant = c.tenant AND b.conversation = c.conversation AND b.branch = CAST(substr(l.name, 33) AS integer)
    AND b.parent IS NOT NULL
    AND e.tenant = b.tenant AND e.conversation = b.conversation AND e.branch = b.branch AND e.seq = b.at + 2
    AND e.kind = 'command'
ORDER BY l.until, l.tenant, l.name LIMIT :limit

-- name: take_lease
-- Unless another has it, whose time is not over and who is not `over`. One statement, so one of many wins.
INSERT INTO leases (tenant, name, holder, until) VALUES (:tenant, :name, :holder, :until)
ON CONFLICT (tenant, name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE leases.holder = excluded.holder OR leases.until <= :now OR leases.holder = :over

-- name: renew_lease
-- Only one's own: what another has had meanwhile is not taken again.
UPDATE leases SET until = :until WHERE tenant = :tenant AND name = :name AND holder = :holder

-- name: leave_lease
-- Free for whoever comes next, who finds what had come of a reply that was never written, or up to which event was written
-- what is still open.
UPDATE leases SET until = 0
WHERE tenant = :tenant AND name = :name AND holder = :holder
    AND (partial <> '' OR (at > 0 AND CAST(:open AS integer) = 1))

-- name: release_lease
-- Unless it was left.
DELETE FROM leases WHERE tenant = :tenant AND name = :name AND holder = :holder AND until <> 0

-- name: lease
SELECT holder, until FROM leases WHERE tenant = :tenant AND name = :name

-- name: leases_of
-- Those whose names begin with a prefix, which sorts before `end`, and that have not run out.
SELECT name, holder FROM leases WHERE tenant = :tenant AND name >= :prefix AND name < :end AND until > :now

-- name: leases_named
-- The same, whether or not they have run out.
SELECT name, holder, until FROM leases WHERE tenant = :tenant AND name >= :prefix AND name < :end ORDER BY name

-- name: leases_of_turns
-- Of every tenant and user, with whose conversation it is. They are named turn/conversation/branch, where a
-- conversation's id has 26 characters.
SELECT l.tenant, c."user", c.conversation, CAST(substr(l.name, 33) AS bigint), l.holder, l.until
FROM leases AS l CROSS JOIN conversations AS c
WHERE l.name LIKE 'turn/%' AND c.tenant = l.tenant AND c.conversation = substr(l.name, 6, 26) AND c.erased IS NULL
ORDER BY l.tenant, l.name

-- name: write_under
-- Goes before everything that is written under a lease: who no longer has it changes no row, and writes nothing. Who does
-- holds the row until the commit, so that nobody takes it over meanwhile.
UPDATE leases SET at = :at, partial = '' WHERE tenant = :tenant AND name = :name AND holder = :holder

-- name: partial
SELECT holder, until, at, partial FROM leases WHERE tenant = :tenant AND name = :name

-- name: lock_lease
-- Goes before `keep_partial`, which then sees what others had under way on the row: a redaction counts itself elsewhere.
UPDATE leases SET at = at WHERE tenant = :tenant AND name = :name AND holder = :holder

-- name: keep_partial
-- Unless the reply has been written meanwhile, another has the lease, or something was redacted that it may tell of.
UPDATE leases SET partial = :partial
WHERE tenant = :tenant AND name = :name AND holder = :holder AND at = :at AND :forgotten = (
    SELECT forgotten FROM conversations WHERE tenant = :tenant AND conversation = :conversation)

-- name: forget_partials
-- Those of leases whose names begin with a prefix, which sorts before `end`; empty ones too, which may just be written.
UPDATE leases SET partial = '' WHERE tenant = :tenant AND name >= :prefix AND name < :end

-- name: remind
INSERT INTO reminders (tenant, conversation, branch, "user", due)
VALUES (:tenant, :conversation, :branch, :user, :due)
ON CONFLICT (tenant, conversation, branch) DO UPDATE SET due = excluded.due

-- name: remind_later
-- Unless somebody has reminded meanwhile.
INSERT INTO reminders (tenant, conversation, branch, "user", due)
VALUES (:tenant, :conversation, :branch, :user, :due)
ON CONFLICT (tenant, conversation, branch) DO NOTHING

-- name: remind_all
-- Of every branch there is.
INSERT INTO reminders (tenant, conversation, branch, "user", due)
SELECT b.tenant, b.conversation, b.branch, c."user", :due
FROM branches b
JOIN conversations c ON c.tenant = b.tenant AND c.conversation = b.conversation
WHERE c.erased IS NULL
ON CONFLICT (tenant, conversation, branch) DO NOTHING

-- name: reminders
-- Of every tenant and user: for workers only.
SELECT tenant, conversation, branch, "user", due FROM reminders WHERE due <= :now ORDER BY due LIMIT :limit

-- name: forget_reminder
-- Unless somebody has reminded again meanwhile.
DELETE FROM reminders
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch AND due = :due

-- name: erase_reminders
DELETE FROM reminders WHERE tenant = :tenant AND conversation = :conversation

-- name: insert_document
INSERT INTO documents (tenant, "user", name, version, body, time)
VALUES (:tenant, :user, :name, :version, :body, :time)

-- name: document
-- One version of a document; the newest where none is given.
SELECT name, version, body, time FROM documents
WHERE tenant = :tenant AND "user" = :user AND name = :name
    AND version = (SELECT coalesce(CAST(:version AS integer),
        (SELECT max(version) FROM documents WHERE tenant = :tenant AND "user" = :user AND name = :name)))

-- name: documents
-- The newest version of each document whose name begins with a prefix, which sorts before `end`.
SELECT d.name, d.version, d.body, d.time FROM documents d
WHERE d.tenant = :tenant AND d."user" = :user AND d.name >= :prefix AND d.name < :end
    AND d.version = (SELECT max(version) FROM documents
        WHERE tenant = :tenant AND "user" = :user AND name = d.name)
ORDER BY d.name LIMIT :limit

-- name: versions
-- The versions of a document, newest first.
SELECT name, version, body, time FROM documents
WHERE tenant = :tenant AND "user" = :user AND name = :name
ORDER BY version DESC LIMIT :limit

-- name: forget_document
DELETE FROM documents WHERE tenant = :tenant AND "user" = :user AND name = :name

-- name: erase_documents
DELETE FROM documents WHERE tenant = :tenant AND "user" = :user

-- name: calibrate
INSERT INTO calibrations (model, step, count) VALUES (:model, :step, 1)
ON CONFLICT (model, step) DO UPDATE SET count = calibrations.count + 1

-- name: calibrations
SELECT model, step, count FROM calibrations ORDER BY model, step

-- name: secret
SELECT value FROM secrets WHERE name = :name

-- name: insert_secret
-- Unless there is one.
INSERT INTO secrets (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING

-- == schedules ==

-- name: insert_schedule
INSERT INTO schedules (tenant, conversation, id, "user", text, at, cron, zone, missed, state, due, look, failures, ran,
    made_conversation, made_branch, made_seq)
VALUES (:tenant, :conversation, :id, :user, :text, :at, :cron, :zone, :missed, :state, :due, :look, :failures, :ran,
    :made_conversation, :made_branch, :made_seq)

-- name: schedule
SELECT id, tenant, "user", conversation, text, at, cron, zone, missed, state, due, look, failures, ran,
    made_conversation, made_branch, made_seq
FROM schedules WHERE tenant = :tenant AND conversation = :conversation AND id = :id

-- name: schedules
-- Of a conversation, those made first before the others.
SELECT id, tenant, "user", conversation, text, at, cron, zone, missed, state, due, look, failures, ran,
    made_conversation, made_branch, made_seq
FROM schedules WHERE tenant = :tenant AND conversation = :conversation ORDER BY id

-- name: schedules_of_user
SELECT id, tenant, "user", conversation, text, at, cron, zone, missed, state, due, look, failures, ran,
    made_conversation, made_branch, made_seq
FROM schedules WHERE tenant = :tenant AND "user" = :user ORDER BY id

-- name: schedules_to_look_at
-- Of every tenant and user: for workers only.
SELECT id, tenant, "user", conversation, text, at, cron, zone, missed, state, due, look, failures, ran,
    made_conversation, made_branch, made_seq
FROM schedules WHERE state = 'active' AND look <= :now ORDER BY look LIMIT :limit

-- name: next_look
-- Of every tenant and user: when the next one is to be looked at, after those that are now.
SELECT look FROM schedules WHERE state = 'active' AND look > :now ORDER BY look LIMIT 1

-- name: update_schedule
UPDATE schedules SET text = :text, at = :at, cron = :cron, zone = :zone, missed = :missed, state = :state, due = :due,
    look = :look, failures = :failures, ran = :ran
WHERE tenant = :tenant AND conversation = :conversation AND id = :id

-- name: forget_schedule
DELETE FROM schedules WHERE tenant = :tenant AND conversation = :conversation AND id = :id

-- name: forget_schedules_made
-- Those that were made by a tool call.
DELETE FROM schedules
WHERE tenant = :tenant AND made_conversation = :conversation AND made_branch = :branch AND made_seq = :seq

-- name: erase_schedules
-- Those of a conversation, and those that its tool calls made in others.
DELETE FROM schedules
WHERE tenant = :tenant AND (conversation = :conversation OR made_conversation = :conversation)

-- name: schedules_of_forgotten_calls
-- Of every tenant and user: what should have been forgotten with the tool call that made it.
SELECT s.id, e.conversation, e.branch, e.seq
FROM schedules s
JOIN events e ON e.tenant = s.tenant AND e.conversation = s.made_conversation AND e.branch = s.made_branch
    AND e.seq = s.made_seq
WHERE s.made_seq > 0 AND substr(e.body, 1, 18) = :tombstone

-- == usage ==

-- name: model_calls
-- The figures of a segment's model calls that are counted for the user whose conversation it is: for checking.
SELECT m.seq, m.turn, m.session, m.time, m.model, m.agent,
    m.input, m.output, m.cache_read, m.cache_write, m.reasoning, m.price, m.ms, m.failed
FROM model_calls m
JOIN conversations c ON c.tenant = m.tenant AND c.conversation = m.conversation AND c."user" = m."user"
WHERE m.tenant = :tenant AND m.conversation = :conversation AND m.branch = :branch
    AND m.seq BETWEEN :first AND :last
ORDER BY m.seq

-- name: usage_of_user
-- Totals of a user's model calls, newest first, `by` one thing: what they are not by is empty in every row. The
-- three that follow each other differ in what they read, and so in the index they read it by.
SELECT
    CASE WHEN CAST(:by AS text) IN ('turn', 'session', 'branch', 'conversation') THEN conversation ELSE '' END,
    CASE WHEN :by IN ('turn', 'session', 'branch') THEN branch ELSE 0 END,
    CASE WHEN :by = 'turn' THEN turn ELSE 0 END,
    CASE WHEN :by = 'session' THEN session ELSE 0 END,
    CASE WHEN :by = 'day' THEN time / 86400000000 ELSE 0 END,
    CASE WHEN :by = 'model' THEN model ELSE '' END,
    CASE WHEN :by = 'user' THEN "user" ELSE '' END,
    count(*), sum(failed), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(reasoning),
    coalesce(sum(price), 0), count(*) - count(price), sum(ms), min(time), max(time)
FROM (
    SELECT conversation, branch, "user", turn, session, time, model,
        failed, input, output, cache_read, cache_write, reasoning, price, ms
    FROM model_calls
    WHERE tenant = :tenant AND "user" = :user AND time >= :since AND time < :until
    UNION ALL
    SELECT conversation, branch, "user", turn, session, time, model,
        failed, input, output, cache_read, cache_write, reasoning, price, ms
    FROM archived_calls
    WHERE tenant = :tenant AND "user" = :user AND time >= :since AND time < :until) AS calls
GROUP BY 1, 2, 3, 4, 5, 6, 7
ORDER BY max(time) DESC, 1 DESC, 2 DESC, 3 DESC, 4 DESC, 5 DESC, 6 DESC, 7 DESC
LIMIT :limit

-- name: usage_of_conversation
-- `|| ''` and `+time` keep the planners from reading all of the user's instead.
SELECT
    CASE WHEN CAST(:by AS text) IN ('turn', 'session', 'branch', 'conversation') THEN conversation ELSE '' END,
    CASE WHEN :by IN ('turn', 'session', 'branch') THEN branch ELSE 0 END,
    CASE WHEN :by = 'turn' THEN turn ELSE 0 END,
    CASE WHEN :by = 'session' THEN session ELSE 0 END,
    CASE WHEN :by = 'day' THEN time / 86400000000 ELSE 0 END,
    CASE WHEN :by = 'model' THEN model ELSE '' END,
    CASE WHEN :by = 'user' THEN "user" ELSE '' END,
    count(*), sum(failed), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(reasoning),
    coalesce(sum(price), 0), count(*) - count(price), sum(ms), min(time), max(time)
FROM (
    SELECT conversation, branch, "user", turn, session, time, model,
        failed, input, output, cache_read, cache_write, reasoning, price, ms
    FROM model_calls
    WHERE tenant = :tenant AND conversation = :conversation AND "user" || '' = :user
        AND +time >= :since AND +time < :until
    UNION ALL
    SELECT conversation, branch, "user", turn, session, time, model,
        failed, input, output, cache_read, cache_write, reasoning, price, ms
    FROM archived_calls
    WHERE tenant = :tenant AND conversation = :conversation AND "user" || '' = :user
        AND +time >= :since AND +time < :until) AS calls
GROUP BY 1, 2, 3, 4, 5, 6, 7
ORDER BY max(time) DESC, 1 DESC, 2 DESC, 3 DESC, 4 DESC, 5 DESC, 6 DESC, 7 DESC
LIMIT :limit

-- name: usage_of_tenant
-- Of all users: for operators only.
SELECT
    CASE WHEN CAST(:by AS text) IN ('turn', 'session', 'branch', 'conversation') THEN conversation ELSE '' END,
    CASE WHEN :by IN ('turn', 'session', 'branch') THEN branch ELSE 0 END,
    CASE WHEN :by = 'turn' THEN turn ELSE 0 END,
    CASE WHEN :by = 'session' THEN session ELSE 0 END,
    CASE WHEN :by = 'day' THEN time / 86400000000 ELSE 0 END,
    CASE WHEN :by = 'model' THEN model ELSE '' END,
    CASE WHEN :by = 'user' THEN "user" ELSE '' END,
    count(*), sum(failed), sum(input), sum(output), sum(cache_read), sum(cache_write), sum(reasoning),
    coalesce(sum(price), 0), count(*) - count(price), sum(ms), min(time), max(time)
FROM (
    SELECT conversation, branch, "user", turn, session, time, model,
        failed, input, output, cache_read, cache_write, reasoning, price, ms
    FROM model_calls
    WHERE tenant = :tenant AND time >= :since AND time < :until
    UNION ALL
    SELECT conversation, branch, "user", turn, session, time, model,
        failed, input, output, cache_read, cache_write, reasoning, price, ms
    FROM archived_calls
    WHERE tenant = :tenant AND time >= :since AND time < :until) AS calls
GROUP BY 1, 2, 3, 4, 5, 6, 7
ORDER BY max(time) DESC, 1 DESC, 2 DESC, 3 DESC, 4 DESC, 5 DESC, 6 DESC, 7 DESC
LIMIT :limit

-- name: tokens_of_user
-- Input and output of a user's model calls since a moment, with those that were archived since, and those that were
-- forgotten since the beginning of its day.
SELECT
    (SELECT coalesce(CAST(sum(input + output) AS bigint), 0) FROM model_calls
        WHERE tenant = :tenant AND "user" = :user AND time >= :since)
    + (SELECT coalesce(CAST(sum(input + output) AS bigint), 0) FROM archived_calls
        WHERE tenant = :tenant AND "user" = :user AND time >= :since)
    + (SELECT coalesce(CAST(sum(tokens) AS bigint), 0) FROM forgotten_tokens
        WHERE tenant = :tenant AND "user" = :user AND day >= :day)

-- name: calls_of_agent
-- The model calls that an agent made for a user since then, archived ones too, oldest first.
SELECT conversation, branch, seq, time, price, failed
FROM model_calls
WHERE tenant = :tenant AND "user" = :user AND time >= :since AND agent = :agent
UNION ALL
SELECT conversation, branch, seq, time, price, failed
FROM archived_calls
WHERE tenant = :tenant AND "user" = :user AND time >= :since AND agent = :agent
ORDER BY time, conversation, branch, seq

-- == recall ==

-- name: recall_due
-- The branches of a user, in conversations from `low_id` to `high_id`, that have events after what is in the index of recall,
-- how many, and whether the branch is in it at all.
SELECT b.conversation, b.branch, (
        SELECT e.seq FROM events e
        WHERE e.tenant = b.tenant AND e.conversation = b.conversation AND e.branch = b.branch
        ORDER BY e.seq DESC LIMIT 1) - coalesce(r.last, b.at), r.last IS NOT NULL
FROM conversations c
JOIN branches b ON b.tenant = c.tenant AND b.conversation = c.conversation
LEFT JOIN recall_branches r ON r.tenant = b.tenant AND r.conversation = b.conversation AND r.branch = b.branch
WHERE c.tenant = :tenant AND c."user" = :user AND c.conversation BETWEEN :low_id AND :high_id AND c.erased IS NULL
    AND EXISTS (SELECT 1 FROM events e
        WHERE e.tenant = b.tenant AND e.conversation = b.conversation AND e.branch = b.branch
            AND e.seq > CASE WHEN r.last IS NULL THEN b.at ELSE r.last END)
ORDER BY b.conversation, b.branch

-- name: recall_behind
-- By branch and last seq, in a JSON object: the newest event up to there, and up to which seq the branch is in the index.
SELECT CAST(j.key AS integer), (
        SELECT e.seq FROM events e
        WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = CAST(j.key AS integer)
            AND e.seq <= CAST(CAST(j.value AS text) AS integer)
        ORDER BY e.seq DESC LIMIT 1), (
        SELECT r.last FROM recall_branches r
        WHERE r.tenant = :tenant AND r.conversation = :conversation AND r.branch = CAST(j.key AS integer))
FROM json_each(:pieces) AS j

-- name: recall_progress
-- Up to which seq a branch is in the index.
SELECT coalesce(r.last, b.at)
FROM branches b
LEFT JOIN recall_branches r ON r.tenant = b.tenant AND r.conversation = b.conversation AND r.branch = b.branch
WHERE b.tenant = :tenant AND b.conversation = :conversation AND b.branch = :branch

-- name: insert_recall_conversation
INSERT INTO recall_conversations (tenant, conversation, "user", slots, events, words)
SELECT tenant, conversation, "user", 0, 0, 0 FROM conversations
WHERE tenant = :tenant AND conversation = :conversation AND "user" = :user AND erased IS NULL
ON CONFLICT (tenant, conversation) DO NOTHING

-- name: recall_conversation
-- What is in the index of a conversation.
SELECT number, slots, events, words, "user" FROM recall_conversations
WHERE tenant = :tenant AND conversation = :conversation

-- name: recall_total
-- How much of a user's is in the index.
SELECT coalesce(sum(events), 0), coalesce(sum(words), 0) FROM recall_conversations
WHERE tenant = :tenant AND "user" = :user

-- name: update_recall_conversation
UPDATE recall_conversations SET slots = :slots, events = :events, words = :words WHERE number = :number

-- name: update_recall_branch
INSERT INTO recall_branches (tenant, conversation, branch, last) VALUES (:tenant, :conversation, :branch, :last)
ON CONFLICT (tenant, conversation, branch) DO UPDATE SET last = excluded.last

-- name: insert_recall_block
INSERT INTO recall_blocks (block, first, last, session, oldest, newest, seqs, runs)
VALUES (:block, :first, :last, :session, :oldest, :newest, :seqs, :runs)
ON CONFLICT (block) DO UPDATE SET seqs = recall_blocks.seqs || excluded.seqs, runs = recall_blocks.runs || excluded.runs,
    first = CASE WHEN excluded.first < recall_blocks.first THEN excluded.first ELSE recall_blocks.first END,
    last = CASE WHEN excluded.last > recall_blocks.last THEN excluded.last ELSE recall_blocks.last END,
    oldest = CASE WHEN excluded.oldest < recall_blocks.oldest THEN excluded.oldest ELSE recall_blocks.oldest END,
    newest = CASE WHEN excluded.newest > recall_blocks.newest THEN excluded.newest ELSE recall_blocks.newest END

-- name: insert_recall_word
INSERT INTO recall_words (word, block, postings) VALUES (:word, :block, :postings)
ON CONFLICT (word, block) DO UPDATE SET postings = recall_words.postings || excluded.postings

-- name: recall_rows
-- The postings of a word, newest blocks first: those of a user, of one conversation if one is given, and of blocks that
-- have something from `since` until just before `until`.
SELECT w.block, w.postings, b.session, b.runs
FROM recall_words w
CROSS JOIN recall_blocks b
CROSS JOIN LATERAL (
    SELECT r.* FROM recall_conversations AS r
    WHERE r.number = w.block >> 20
    OFFSET 0) AS r
WHERE w.word = :word AND w.block >= :low AND w.block < :high
    AND b.block = w.block AND b.newest >= :since AND b.oldest < :until
    AND r.tenant = :tenant AND r."user" = :user
    AND (r.conversation = :conversation OR :conversation = '')
ORDER BY w.block DESC LIMIT :limit

-- name: recall_rows_among
-- The same in some blocks, which are the keys of a JSON object: the form of a list that both databases take.
SELECT w.block, w.postings, b.session, b.runs
FROM json_each(:blocks) AS j
CROSS JOIN recall_words w
CROSS JOIN recall_blocks b
CROSS JOIN LATERAL (
    SELECT r.* FROM recall_conversations AS r
    WHERE r.number = w.block >> 20
    OFFSET 0) AS r
WHERE w.word = :word AND w.block = CAST(j.key AS bigint)
    AND b.block = w.block AND b.newest >= :since AND b.oldest < :until
    AND r.tenant = :tenant AND r."user" = :user
    AND (r.conversation = :conversation OR :conversation = '')

-- name: recall_known
-- Some words, the keys of a JSON object, each with a block it is in, or none. With a limit it is looked up by its key:
-- PostgreSQL would make a join of EXISTS, and read all words there are.
SELECT CAST(j.key AS bigint), (
        SELECT w.block FROM recall_words w WHERE w.word = CAST(j.key AS bigint) ORDER BY w.block DESC LIMIT 1)
FROM json_each(:numbers) AS j

-- name: recall_count
-- In how many blocks a word is.
SELECT count(*) FROM recall_words WHERE word = :word AND block >= :low AND block < :high

-- name: recall_places
-- Where the events of some blocks are, if they are this user's.
SELECT b.block, r.conversation, b.seqs, b.runs
FROM json_each(:blocks) AS j
CROSS JOIN recall_blocks b
CROSS JOIN LATERAL (
    SELECT r.* FROM recall_conversations AS r
    WHERE r.number = b.block >> 20
    OFFSET 0) AS r
WHERE b.block = CAST(j.key AS bigint) AND r.tenant = :tenant AND r."user" = :user

-- name: recall_events
-- Events of a conversation by branch and seq (branch * 2^31 + seq), which are the keys of a JSON object.
SELECT e.branch, e.seq, e.id, e.kind, e.time, e.turn, e.session, e.tokens, e.settled, e.body
FROM json_each(:places) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation
        AND e.branch = CAST(j.key AS bigint) >> 31 AND e.seq = CAST(j.key AS bigint) & 2147483647
    OFFSET 0) AS e
WHERE e.seq > 0

-- name: events_among
-- Events of a branch by their seqs, which are the keys of a JSON object.
SELECT e.branch, e.seq, e.id, e.kind, e.time, e.turn, e.session, e.tokens, e.settled, e.body
FROM json_each(:seqs) AS j
CROSS JOIN LATERAL (
    SELECT e.* FROM events AS e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = :branch
        AND e.seq = CAST(j.key AS integer)
    OFFSET 0) AS e
WHERE e.seq > 0

-- name: recall_block
-- The blocks of a conversation in which an event may be.
SELECT block, seqs, runs FROM recall_blocks
WHERE block >= :low AND block < :high AND first <= :seq AND last >= :seq
ORDER BY block

-- name: recall_blocks
-- A conversation's blocks.
SELECT block, first, last, session, oldest, newest, seqs, runs FROM recall_blocks WHERE block >= :low AND block < :high
ORDER BY block LIMIT :limit

-- name: recall_words
-- All words of a block.
SELECT word, postings FROM recall_words WHERE block = :block

-- name: update_recall_word
UPDATE recall_words SET postings = :postings WHERE word = :word AND block = :block

-- name: forget_recall_word
DELETE FROM recall_words WHERE word = :word AND block = :block

-- name: erase_recall_words
DELETE FROM recall_words WHERE block >= :low AND block < :high

-- name: erase_recall_blocks
DELETE FROM recall_blocks WHERE block >= :low AND block < :high

-- name: erase_recall_branches
DELETE FROM recall_branches WHERE tenant = :tenant AND conversation = :conversation

-- name: erase_recall_conversations
DELETE FROM recall_conversations WHERE tenant = :tenant AND conversation = :conversation

-- == accounts ==

-- name: any_account
-- Of any tenant: whether the store has been set up.
SELECT 1 FROM accounts LIMIT 1

-- name: any_password
-- Of any tenant: whether somebody could sign in from elsewhere.
SELECT 1 FROM accounts WHERE password <> '' AND disabled IS NULL LIMIT 1

-- name: insert_account
INSERT INTO accounts (tenant, "user", role, password, made, disabled)
VALUES (:tenant, :user, :role, :password, :made, :disabled)

-- name: account
SELECT tenant, "user", role, password, made, disabled FROM accounts WHERE tenant = :tenant AND "user" = :user

-- name: accounts
SELECT tenant, "user", role, password, made, disabled FROM accounts
WHERE tenant = :tenant AND "user" > :after
ORDER BY "user" LIMIT :limit

-- name: other_administrator
-- Whether somebody else can administer the tenant.
SELECT 1 FROM accounts
WHERE tenant = :tenant AND "user" <> :user AND role = 'administrator' AND disabled IS NULL
LIMIT 1

-- name: update_account
UPDATE accounts SET role = :role, password = :password, disabled = :disabled WHERE tenant = :tenant AND "user" = :user

-- name: erase_account
DELETE FROM accounts WHERE tenant = :tenant AND "user" = :user

-- name: insert_link
INSERT INTO links (tenant, hash, "user", what, role, until) VALUES (:tenant, :hash, :user, :what, :role, :until)

-- name: link_by_hash
-- For whoever has its token: the tenant is not known before.
SELECT tenant, hash, "user", what, role, until FROM links WHERE hash = :hash

-- name: forget_link
DELETE FROM links WHERE tenant = :tenant AND hash = :hash

-- name: erase_links
DELETE FROM links WHERE tenant = :tenant AND "user" = :user

-- name: forget_stale_links
DELETE FROM links WHERE tenant = :tenant AND until <= :now

-- name: insert_sign_in
INSERT INTO sign_ins (tenant, hash, "user", how, entered_by, scopes, made, seen, until)
VALUES (:tenant, :hash, :user, :how, :entered_by, :scopes, :made, :seen, :until)

-- name: sign_in_by_hash
-- For whoever has its token, as above; with the role of its user and, where an administrator has entered, of that one, as far
-- as these have accounts that are not disabled, and whether the user's is.
SELECT s.tenant, s.hash, s."user", s.how, s.entered_by, s.scopes, s.made, s.seen, s.until,
    a.role, a.disabled, b.role, b.disabled
FROM sign_ins AS s
LEFT JOIN accounts AS a ON a.tenant = s.tenant AND a."user" = s."user"
LEFT JOIN accounts AS b ON b.tenant = s.tenant AND b."user" = s.entered_by
WHERE s.hash = :hash

-- name: see_sign_in
UPDATE sign_ins SET seen = :seen, until = :until WHERE tenant = :tenant AND hash = :hash

-- name: forget_sign_in
DELETE FROM sign_ins WHERE tenant = :tenant AND hash = :hash

-- name: forget_sign_ins
-- All of a user's but one.
DELETE FROM sign_ins WHERE tenant = :tenant AND "user" = :user AND hash <> :hash

-- name: forget_entered
-- Those by which an administrator has entered.
DELETE FROM sign_ins WHERE tenant = :tenant AND entered_by = :user AND entered_by <> ''

-- name: forget_stale_sign_ins
DELETE FROM sign_ins WHERE tenant = :tenant AND until <= :now

-- name: insert_api_key
INSERT INTO api_keys (tenant, id, hash, "user", application, users, label, scopes, made, until, seen, revoked)
VALUES (:tenant, :id, :hash, :user, :application, :users, :label, :scopes, :made, :until, :seen, :revoked)

-- name: api_key_by_hash
-- For whoever has the key, as above; with the role of its user, or of the one whom the application names, and whether that
-- account is disabled.
SELECT k.tenant, k.id, k."user", k.application, k.users, k.label, k.scopes, k.made, k.until, k.seen, k.revoked,
    a.role, a.disabled
FROM api_keys AS k
LEFT JOIN accounts AS a ON a.tenant = k.tenant AND a."user" = CASE WHEN k."user" = '' THEN :user ELSE k."user" END
WHERE k.hash = :hash

-- name: api_key
SELECT tenant, id, "user", application, users, label, scopes, made, until, seen, revoked FROM api_keys
WHERE tenant = :tenant AND id = :id

-- name: api_keys
SELECT tenant, id, "user", application, users, label, scopes, made, until, seen, revoked FROM api_keys
WHERE tenant = :tenant AND id > :after
ORDER BY id LIMIT :limit

-- name: api_keys_of_user
SELECT tenant, id, "user", application, users, label, scopes, made, until, seen, revoked FROM api_keys
WHERE tenant = :tenant AND "user" = :user AND id > :after
ORDER BY id LIMIT :limit

-- name: see_api_key
UPDATE api_keys SET seen = :seen WHERE tenant = :tenant AND id = :id

-- name: revoke_api_key
UPDATE api_keys SET revoked = :revoked WHERE tenant = :tenant AND id = :id AND revoked IS NULL

-- name: erase_api_keys
DELETE FROM api_keys WHERE tenant = :tenant AND "user" = :user AND "user" <> ''

-- name: provider_keys
SELECT tenant, provider, key_id, nonce, sealed, made FROM provider_keys WHERE tenant = :tenant ORDER BY provider

-- name: all_provider_keys
-- Of every tenant: for operators who change the master key.
SELECT tenant, provider, key_id, nonce, sealed, made FROM provider_keys ORDER BY tenant, provider

-- name: put_provider_key
INSERT INTO provider_keys (tenant, provider, key_id, nonce, sealed, made)
VALUES (:tenant, :provider, :key_id, :nonce, :sealed, :made)
ON CONFLICT (tenant, provider) DO UPDATE SET key_id = excluded.key_id, nonce = excluded.nonce, sealed = excluded.sealed,
    made = excluded.made

-- name: reseal_provider_key
-- Unless somebody has put in another meanwhile.
UPDATE provider_keys SET key_id = :key_id, nonce = :nonce, sealed = :sealed
WHERE tenant = :tenant AND provider = :provider AND sealed = :was

-- name: forget_provider_key
DELETE FROM provider_keys WHERE tenant = :tenant AND provider = :provider

-- name: insert_audit
-- Once, should its commit not have been confirmed.
INSERT INTO audit (tenant, id, time, done_by, act, "user", about)
VALUES (:tenant, :id, :time, :done_by, :act, :user, :about)
ON CONFLICT (tenant, id) DO NOTHING

-- name: audit
SELECT tenant, id, time, done_by, act, "user", about FROM audit
WHERE tenant = :tenant AND id < :before
ORDER BY id DESC LIMIT :limit

-- name: unname_audited
UPDATE audit SET "user" = :mark, about = '' WHERE tenant = :tenant AND "user" = :user

-- name: unname_auditor
UPDATE audit SET done_by = :mark, about = '' WHERE tenant = :tenant AND done_by = :user

-- == archives ==

-- name: archived
-- When a conversation was archived, whoever it belongs to.
SELECT archived FROM conversations WHERE tenant = :tenant AND conversation = :conversation AND erased IS NULL

-- name: idle_conversations
-- Of every tenant and user: those that were last active before the minute `active`, the longest idle first, after the one
-- with which the last page ended.
SELECT active, tenant, conversation, "user" FROM conversations
WHERE erased IS NULL AND archived IS NULL AND active < :active
    AND (active, tenant, conversation) > (CAST(:last AS bigint), :after_tenant, :after)
ORDER BY active, tenant, conversation LIMIT :limit

-- name: hold_branches
-- The branches of a conversation, to which nobody appends until the commit.
SELECT branch FROM branches WHERE tenant = :tenant AND conversation = :conversation ORDER BY branch FOR UPDATE

-- name: kept_from_archive
-- Why a conversation cannot be archived now: a turn that runs or was left behind, one that waits, a message that is scheduled,
-- or something that is being forgotten.
SELECT 'a turn' FROM leases WHERE tenant = :tenant AND name >= :prefix AND name < :end
UNION ALL
SELECT 'a schedule' FROM schedules
WHERE tenant = :tenant AND conversation = :conversation AND state IN ('active', 'paused')
UNION ALL
SELECT 'forgetting' FROM forgetting WHERE tenant = :tenant AND conversation = :conversation
UNION ALL
SELECT 'approval' FROM branches b
WHERE b.tenant = :tenant AND b.conversation = :conversation AND (SELECT e.state FROM events e
    WHERE e.tenant = :tenant AND e.conversation = :conversation AND e.branch = b.branch
    ORDER BY e.seq DESC LIMIT 1) = 'waiting'

-- name: pack_conversations
SELECT conversation, "user", agent, name, goal, settings, current, time, forgotten, alias, metadata, active
FROM conversations WHERE tenant = :tenant AND conversation = :conversation AND erased IS NULL AND archived IS NULL

-- name: pack_branches
SELECT branch, name, parent, at, time FROM branches
WHERE tenant = :tenant AND conversation = :conversation ORDER BY branch

-- name: pack_events
SELECT branch, kind, body,
    seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before,
    importance, left_importance
FROM events WHERE tenant = :tenant AND conversation = :conversation ORDER BY branch, seq

-- name: pack_receipts
SELECT key, branch, first, last, hash FROM receipts
WHERE tenant = :tenant AND conversation = :conversation ORDER BY key

-- name: pack_blobs
SELECT hash, data FROM blobs WHERE tenant = :tenant AND conversation = :conversation ORDER BY hash

-- name: pack_blob_uses
SELECT hash, branch, seq FROM blob_uses
WHERE tenant = :tenant AND conversation = :conversation ORDER BY hash, branch, seq

-- name: pack_model_calls
SELECT branch, seq, "user", turn, session, time, model, agent,
    input, output, cache_read, cache_write, reasoning, price, ms, failed
FROM model_calls WHERE tenant = :tenant AND conversation = :conversation ORDER BY branch, seq

-- name: pack_quotes
SELECT branch, seq, of_conversation, of_branch, of_seq FROM quotes
WHERE tenant = :tenant AND conversation = :conversation ORDER BY branch, seq, of_conversation, of_branch, of_seq

-- name: pack_canvases
SELECT branch, seq, body FROM canvases WHERE tenant = :tenant AND conversation = :conversation ORDER BY branch, seq

-- name: pack_schedules
-- But for those that a tool call of another conversation made: they stay, to be forgotten with it.
SELECT id, "user", text, at, cron, zone, missed, state, due, look, failures, ran,
    made_conversation, made_branch, made_seq
FROM schedules
WHERE tenant = :tenant AND conversation = :conversation AND made_conversation IN ('', :conversation) ORDER BY id

-- name: pack_reminders
SELECT branch, "user", due FROM reminders WHERE tenant = :tenant AND conversation = :conversation ORDER BY branch

-- name: insert_packed_branches
INSERT INTO branches (tenant, conversation, branch, name, parent, at, time)
VALUES (:tenant, :conversation, :branch, :name, :parent, :at, :time)

-- name: insert_packed_events
INSERT INTO events (tenant, conversation, branch, kind, body,
    seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before,
    importance, left_importance)
VALUES (:tenant, :conversation, :branch, :kind, :body,
    :seq, :id, :time, :turn, :turn_first, :state, :pending, :session, :session_first, :spoken, :spoken_time,
    :cleared, :cleared_sum, :tokens, :settled, :tokens_before, :settled_before, :messages_before,
    :importance, :left_importance)

-- name: insert_packed_receipts
INSERT INTO receipts (tenant, conversation, key, branch, first, last, hash)
VALUES (:tenant, :conversation, :key, :branch, :first, :last, :hash)

-- name: insert_packed_blobs
INSERT INTO blobs (tenant, conversation, hash, data) VALUES (:tenant, :conversation, :hash, :data)

-- name: insert_packed_blob_uses
INSERT INTO blob_uses (tenant, conversation, hash, branch, seq) VALUES (:tenant, :conversation, :hash, :branch, :seq)

-- name: insert_packed_model_calls
INSERT INTO model_calls (tenant, conversation, branch, seq, "user", turn, session, time, model, agent,
    input, output, cache_read, cache_write, reasoning, price, ms, failed)
VALUES (:tenant, :conversation, :branch, :seq, :user, :turn, :session, :time, :model, :agent,
    :input, :output, :cache_read, :cache_write, :reasoning, :price, :ms, :failed)

-- name: insert_packed_quotes
INSERT INTO quotes (tenant, conversation, branch, seq, of_conversation, of_branch, of_seq)
VALUES (:tenant, :conversation, :branch, :seq, :of_conversation, :of_branch, :of_seq)

-- name: insert_packed_canvases
INSERT INTO canvases (tenant, conversation, branch, seq, body)
VALUES (:tenant, :conversation, :branch, :seq, :body)

-- name: insert_packed_schedules
INSERT INTO schedules (tenant, conversation, id, "user", text, at, cron, zone, missed, state, due, look, failures, ran,
    made_conversation, made_branch, made_seq)
VALUES (:tenant, :conversation, :id, :user, :text, :at, :cron, :zone, :missed, :state, :due, :look, :failures, :ran,
    :made_conversation, :made_branch, :made_seq)

-- name: insert_packed_reminders
INSERT INTO reminders (tenant, conversation, branch, "user", due)
VALUES (:tenant, :conversation, :branch, :user, :due)

-- name: take_out_schedules
-- Those that are packed; what its tool calls made in others is theirs.
DELETE FROM schedules
WHERE tenant = :tenant AND conversation = :conversation AND made_conversation IN ('', :conversation)

-- name: keep_archived_calls
INSERT INTO archived_calls (tenant, conversation, branch, seq, "user", turn, session, time, model, agent,
    input, output, cache_read, cache_write, reasoning, price, ms, failed)
SELECT tenant, conversation, branch, seq, "user", turn, session, time, model, agent,
    input, output, cache_read, cache_write, reasoning, price, ms, failed
FROM model_calls WHERE tenant = :tenant AND conversation = :conversation

-- name: keep_archived_quotes
INSERT INTO archived_quotes (tenant, conversation, branch, seq, time, of_conversation, of_branch, of_seq)
SELECT q.tenant, q.conversation, q.branch, q.seq, e.time, q.of_conversation, q.of_branch, q.of_seq
FROM quotes q
JOIN events e ON e.tenant = q.tenant AND e.conversation = q.conversation AND e.branch = q.branch AND e.seq = q.seq
WHERE q.tenant = :tenant AND q.conversation = :conversation

-- name: erase_archived_calls
DELETE FROM archived_calls WHERE tenant = :tenant AND conversation = :conversation

-- name: erase_archived_quotes
DELETE FROM archived_quotes WHERE tenant = :tenant AND conversation = :conversation

-- name: set_archived
UPDATE conversations SET archived = :archived WHERE tenant = :tenant AND conversation = :conversation

-- name: insert_archive
INSERT INTO archives (tenant, conversation, archive, "user", state, place, title, hash, key_id, nonce, sealed,
    made, newest, events, messages, tokens, size, branches, versioned)
VALUES (:tenant, :conversation, :archive, :user, :state, :place, :title, :hash, :key_id, :nonce, :sealed,
    :made, :newest, :events, :messages, :tokens, :size, :branches, :versioned)

-- name: finish_archive
-- The file is there, and is what the rows were.
UPDATE archives SET state = 'archived', title = :title, hash = :hash, made = :made, newest = :newest, events = :events,
    messages = :messages, tokens = :tokens, size = :size, branches = :branches, versioned = :versioned
WHERE tenant = :tenant AND conversation = :conversation AND archive = :archive

-- name: insert_archive_word
INSERT INTO archive_words (tenant, conversation, archive, word) VALUES (:tenant, :conversation, :archive, :word)

-- name: erase_archive_words
DELETE FROM archive_words WHERE tenant = :tenant AND conversation = :conversation

-- name: owe_archive
-- Its file is to be deleted. Without its key nobody reads what is left of it anywhere.
UPDATE archives SET state = 'owed', "user" = '', title = '', hash = '', key_id = '', nonce = :nothing, sealed = :nothing
WHERE tenant = :tenant AND conversation = :conversation AND archive = :archive

-- name: owe_archives
-- The same of all archives of a conversation.
UPDATE archives SET state = 'owed', "user" = '', title = '', hash = '', key_id = '', nonce = :nothing, sealed = :nothing
WHERE tenant = :tenant AND conversation = :conversation

-- name: reseal_archive
-- Unless it was destroyed meanwhile.
UPDATE archives SET key_id = :key_id, nonce = :nonce, sealed = :sealed
WHERE tenant = :tenant AND conversation = :conversation AND archive = :archive AND sealed = :was

-- name: drop_archive
-- Its file is gone.
DELETE FROM archives
WHERE tenant = :tenant AND conversation = :conversation AND archive = :archive AND state = 'owed'

-- name: archive_of
-- The archives of a conversation, whoever it belongs to: one that holds it, and what is written or deleted at the moment.
SELECT tenant, conversation, archive, "user", state, place, title, hash, key_id, nonce, sealed,
    made, newest, events, messages, tokens, size, branches, versioned
FROM archives WHERE tenant = :tenant AND conversation = :conversation ORDER BY archive

-- name: archives_of
-- A page of a user's, newest first.
SELECT tenant, conversation, archive, "user", state, place, title, hash, key_id, nonce, sealed,
    made, newest, events, messages, tokens, size, branches, versioned
FROM archives WHERE tenant = :tenant AND "user" = :user AND state = 'archived'
ORDER BY made DESC, archive DESC LIMIT :limit OFFSET :skip

-- name: all_archives
-- Of every tenant and user, after the one with which the last page ended: for operators.
SELECT tenant, conversation, archive, "user", state, place, title, hash, key_id, nonce, sealed,
    made, newest, events, messages, tokens, size, branches, versioned
FROM archives WHERE (tenant, conversation, archive) > (:after_tenant, :after, :archive)
ORDER BY tenant, conversation, archive LIMIT :limit

-- name: unfinished_archives
-- Of every tenant and user: those that are written or to be deleted, the oldest first.
SELECT tenant, conversation, archive, "user", state, place, title, hash, key_id, nonce, sealed,
    made, newest, events, messages, tokens, size, branches, versioned
FROM archives WHERE state <> 'archived' ORDER BY made LIMIT :limit

-- name: archives_with_word
-- A user's archives that have a word.
SELECT w.conversation, w.archive FROM archive_words w
JOIN archives a ON a.tenant = w.tenant AND a.conversation = w.conversation AND a.archive = w.archive
    AND a."user" = :user AND a.state = 'archived'
WHERE w.word = :word AND w.tenant = :tenant
LIMIT :limit
