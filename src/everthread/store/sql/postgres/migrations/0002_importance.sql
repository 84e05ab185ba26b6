-- How important a turn is, beside its place in time: its messages' highest score so far (`importance`), and that
-- of the turn before (`left_importance`), which is whole when its successor begins and is indexed there. What was
-- said before this migration is scored here, by the default scores.

ALTER TABLE events ADD COLUMN importance      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN left_importance INTEGER NOT NULL DEFAULT 0;

UPDATE events SET importance = scored.importance
FROM (
    SELECT tenant, conversation, branch, seq, max(CASE WHEN spoken <> seq THEN 0 ELSE
            CASE kind WHEN 'system' THEN 90 WHEN 'user' THEN 40 WHEN 'assistant' THEN 30
                WHEN 'tool_call' THEN 55 WHEN 'tool_result' THEN 55 ELSE 0 END
            - CASE WHEN octet_length(body) > 5000 THEN 10 ELSE 0 END END)
        OVER (PARTITION BY tenant, conversation, branch, turn_first ORDER BY seq) AS importance
    FROM events) AS scored
WHERE events.tenant = scored.tenant AND events.conversation = scored.conversation
    AND events.branch = scored.branch AND events.seq = scored.seq;

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

UPDATE events SET left_importance = coalesce((
    SELECT p.importance FROM events p
    WHERE p.tenant = events.tenant AND p.conversation = events.conversation AND p.branch = events.branch
        AND p.seq = events.seq - 1), 0)
WHERE turn_first = seq;

-- A branch may begin with a turn, if it was imported: the turn before it is its parent's.
UPDATE events SET left_importance = p.importance
FROM branches b
JOIN events p ON p.tenant = b.tenant AND p.conversation = b.conversation AND p.branch = b.parent AND p.seq = b.at
WHERE events.tenant = b.tenant AND events.conversation = b.conversation AND events.branch = b.branch
    AND events.seq = b.at + 1 AND events.turn_first = events.seq;

CREATE INDEX events_importance ON events (tenant, conversation, branch, left_importance, seq)
    WHERE turn_first = seq AND left_importance >= 0;
