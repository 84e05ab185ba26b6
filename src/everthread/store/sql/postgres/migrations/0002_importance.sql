-- How important a turn is, beside its place in time: its messages' highest score so far (`importance`), and that
-- of the turn before (`left_importance`), which is whole when its successor begins and is indexed there. What was
-- said before this migration is scored here, by the default scores.

ALTER TABLE events ADD COLUMN importance      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN left_importance INTEGER NOT NULL DEFAULT 0;

UPDATE events SET importance = CASE kind
    WHEN 'system' THEN 90 WHEN 'user' THEN 40 WHEN 'assistant' THEN 30 WHEN 'tool_call' THEN 55
    WHEN 'tool_result' THEN 55 ELSE 0 END - CASE WHEN octet_length(body) > 5000 THEN 10 ELSE 0 END
WHERE spoken = seq;

UPDATE events SET importance = (
    SELECT coalesce(max(e.importance), 0) FROM events e
    WHERE e.tenant = events.tenant AND e.conversation = events.conversation AND e.branch = events.branch
        AND e.seq BETWEEN events.turn_first AND events.seq);

-- A turn that was forked began on an ancestor, maybe not the nearest: what it was worth there counts as well.
WITH RECURSIVE begun (tenant, conversation, branch, turn_first, owner, importance) AS (
    SELECT b.tenant, b.conversation, b.branch, e.turn_first, e.branch, e.importance
    FROM branches b
    JOIN events e ON e.tenant = b.tenant AND e.conversation = b.conversation AND e.branch = b.parent AND e.seq = b.at
    UNION ALL
    SELECT n.tenant, n.conversation, n.branch, n.turn_first, e.branch, e.importance
    FROM begun n
    JOIN branches b ON b.tenant = n.tenant AND b.conversation = n.conversation AND b.branch = n.owner
    JOIN events e ON e.tenant = b.tenant AND e.conversation = b.conversation AND e.branch = b.parent AND e.seq = b.at
    WHERE n.turn_first <= b.at
)
UPDATE events SET importance = shared.importance
FROM (SELECT tenant, conversation, branch, turn_first, max(importance) AS importance
    FROM begun GROUP BY tenant, conversation, branch, turn_first) AS shared
WHERE events.tenant = shared.tenant AND events.conversation = shared.conversation AND events.branch = shared.branch
    AND events.turn_first = shared.turn_first AND events.importance < shared.importance;

-- The event before may be the one that the branch was forked after.
UPDATE events SET left_importance = coalesce((
    SELECT p.importance FROM branches b
    JOIN events p ON p.tenant = b.tenant AND p.conversation = b.conversation
        AND p.branch = CASE WHEN b.at = events.seq - 1 THEN b.parent ELSE b.branch END AND p.seq = events.seq - 1
    WHERE b.tenant = events.tenant AND b.conversation = events.conversation AND b.branch = events.branch), 0)
WHERE turn_first = seq;

CREATE INDEX events_importance ON events (tenant, conversation, branch, left_importance, seq)
    WHERE turn_first = seq AND left_importance >= 0;
