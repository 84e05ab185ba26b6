-- The questions and statements of the log, by name, for both engines: written in the SQL that they share, so
-- that there is one text to read and to get right. Parameters are written :name.

-- == conversations ==

-- name: insert_conversation
INSERT INTO conversations (tenant, conversation, "user", agent, name, goal, settings, current, time)
VALUES (:tenant, :conversation, :user, :agent, :name, :goal, :settings, :current, :time)

-- name: conversation
-- One conversation of a user.
SELECT conversation, "user", agent, name, goal, settings, current, time, erased
FROM conversations
WHERE tenant = :tenant AND conversation = :conversation AND "user" = :user

-- name: conversation_exists
-- Whoever it belongs to: an imported id must be new to the tenant.
SELECT 1 FROM conversations WHERE tenant = :tenant AND conversation = :conversation

-- name: conversations
-- A page of a user's conversations, newest first.
SELECT conversation, "user", agent, name, goal, settings, current, time, erased
FROM conversations
WHERE tenant = :tenant AND "user" = :user AND conversation < :before AND erased IS NULL
    AND (agent = :agent OR :agent = '')
ORDER BY conversation DESC
LIMIT :limit

-- name: newest_conversation
SELECT conversation, "user", agent, name, goal, settings, current, time, erased
FROM conversations
WHERE tenant = :tenant AND "user" = :user AND agent = :agent AND erased IS NULL
ORDER BY conversation DESC
LIMIT 1

-- name: all_conversations
-- Of every tenant and user: for operators only.
SELECT tenant, conversation FROM conversations ORDER BY tenant, conversation

-- name: branch_heads
-- Every branch of a conversation with its newest event's sums and those before its first own event.
SELECT b.branch, b.name, b.parent, b.at, b.time,
    coalesce(e.seq, 0), coalesce(e.time, 0),
    coalesce(e.tokens_before + e.tokens, 0),
    coalesce(e.messages_before + CASE WHEN e.spoken = e.seq THEN 1 ELSE 0 END, 0),
    coalesce(f.tokens_before, 0), coalesce(f.messages_before, 0)
FROM branches b
LEFT JOIN events e ON e.tenant = b.tenant AND e.conversation = b.conversation AND e.branch = b.branch
    AND e.seq = (SELECT max(seq) FROM events WHERE tenant = :tenant AND conversation = :conversation
                 AND branch = b.branch)
LEFT JOIN events f ON f.tenant = b.tenant AND f.conversation = b.conversation AND f.branch = b.branch
    AND f.seq = b.at + 1
WHERE b.tenant = :tenant AND b.conversation = :conversation
ORDER BY b.branch

-- name: user_totals
-- Events, messages and tokens of all of a user's conversations, each event counted once.
SELECT count(DISTINCT c.conversation), coalesce(sum(e.seq - b.at), 0),
    coalesce(sum(e.messages_before + CASE WHEN e.spoken = e.seq THEN 1 ELSE 0 END - f.messages_before), 0),
    coalesce(sum(e.tokens_before + e.tokens - f.tokens_before), 0)
FROM conversations c
LEFT JOIN branches b ON b.tenant = c.tenant AND b.conversation = c.conversation
LEFT JOIN events e ON e.tenant = b.tenant AND e.conversation = b.conversation AND e.branch = b.branch
    AND e.seq = (SELECT max(seq) FROM events
                 WHERE tenant = b.tenant AND conversation = b.conversation AND branch = b.branch)
LEFT JOIN events f ON f.tenant = b.tenant AND f.conversation = b.conversation AND f.branch = b.branch
    AND f.seq = b.at + 1
WHERE c.tenant = :tenant AND c."user" = :user AND c.erased IS NULL

-- name: update_conversation
UPDATE conversations SET name = :name, goal = :goal, settings = :settings
WHERE tenant = :tenant AND conversation = :conversation AND erased IS NULL

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

-- name: branch
-- One branch; the current one where none is given.
SELECT branch, name, parent, at, time FROM branches
WHERE tenant = :tenant AND conversation = :conversation
    AND branch = coalesce(CAST(:branch AS integer),
        (SELECT current FROM conversations WHERE tenant = :tenant AND conversation = :conversation))

-- name: lineage
-- A branch and its ancestors, itself first.
WITH RECURSIVE lineage (depth, branch, name, parent, at, time) AS (
    SELECT 0, branch, name, parent, at, time FROM branches
    WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    UNION ALL
    SELECT depth + 1, b.branch, b.name, b.parent, b.at, b.time
    FROM lineage JOIN branches b
        ON b.tenant = :tenant AND b.conversation = :conversation AND b.branch = lineage.parent
)
SELECT branch, name, parent, at, time FROM lineage ORDER BY depth

-- == appending ==

-- name: head
-- The newest event's head on a branch, the current one where none is given.
SELECT branch, seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before
FROM events
WHERE tenant = :tenant AND conversation = :conversation
    AND branch = coalesce(CAST(:branch AS integer),
        (SELECT current FROM conversations WHERE tenant = :tenant AND conversation = :conversation))
ORDER BY seq DESC LIMIT 1

-- name: head_at
-- The head of a branch as of one of its own events.
SELECT seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before
FROM events WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq = :seq

-- name: insert_event
INSERT INTO events (tenant, conversation, branch, kind, body,
    seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before)
VALUES (:tenant, :conversation, :branch, :kind, :body,
    :seq, :id, :time, :turn, :turn_first, :state, :pending, :session, :session_first, :spoken, :spoken_time,
    :cleared, :cleared_sum, :tokens, :settled, :tokens_before, :settled_before, :messages_before)

-- name: insert_event_if_current
-- The same, unless the conversation points at another branch by now.
INSERT INTO events (tenant, conversation, branch, kind, body,
    seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before)
SELECT :tenant, :conversation, :branch, :kind, :body,
    :seq, :id, :time, :turn, :turn_first, :state, :pending, :session, :session_first, :spoken, :spoken_time,
    :cleared, :cleared_sum, :tokens, :settled, :tokens_before, :settled_before, :messages_before
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

-- name: tail
-- The events of the newest turns of a segment: from the first event of the turn that `skip` others follow, or
-- from the segment's beginning where it has not so many.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND seq BETWEEN coalesce((
        SELECT seq FROM events
        WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch AND turn_first = seq
        ORDER BY settled_before DESC, seq DESC LIMIT 1 OFFSET :skip), :first) AND :last
ORDER BY seq

-- name: folds
-- One segment with everything that was folded, oldest first: for checking.
SELECT kind, body, seq, id, time, turn, turn_first, state, pending, session, session_first, spoken, spoken_time,
    cleared, cleared_sum, tokens, settled, tokens_before, settled_before, messages_before
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
    (SELECT p.state FROM events p WHERE p.tenant = events.tenant AND p.conversation = events.conversation
        AND p.branch = events.branch AND p.seq = events.seq - 1),
    (SELECT p.spoken_time FROM events p WHERE p.tenant = events.tenant AND p.conversation = events.conversation
        AND p.branch = events.branch AND p.seq = events.seq - 1)
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND session_first = seq AND +seq BETWEEN :first AND :last
    AND session BETWEEN CAST(:low AS bigint) AND CAST(:high AS bigint)
ORDER BY session LIMIT :limit

-- name: markers_down
-- The markers of one kind in a segment, newest first.
SELECT branch, seq, id, kind, time, turn, session, tokens, settled, body
FROM events
WHERE tenant = :tenant AND conversation = :conversation AND branch = :branch
    AND spoken <> seq AND kind = :kind AND seq BETWEEN :first AND :last
ORDER BY seq DESC LIMIT :limit

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

-- name: erase_events
DELETE FROM events WHERE tenant = :tenant AND conversation = :conversation

-- name: erase_branches
DELETE FROM branches WHERE tenant = :tenant AND conversation = :conversation

-- name: erase_conversation
-- The tombstone: that there was one, and when it was erased.
UPDATE conversations SET name = '', goal = '', settings = '{}', erased = :time
WHERE tenant = :tenant AND conversation = :conversation

-- name: forget_user
UPDATE conversations SET "user" = '' WHERE tenant = :tenant AND "user" = :user AND erased IS NOT NULL
