-- How important a turn is, beside its place in time: its messages' highest score so far (`importance`), and that
-- of the turn before (`left_importance`), which is whole when its successor begins and is indexed there. What was
-- said before this migration is scored here, by the default scores.

ALTER TABLE events ADD COLUMN importance      INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN left_importance INTEGER NOT NULL DEFAULT 0;

UPDATE events SET importance = CASE kind
    WHEN 'system' THEN 90 WHEN 'user' THEN 40 WHEN 'assistant' THEN 30 WHEN 'tool_call' THEN 55
    WHEN 'tool_result' THEN 55 ELSE 0 END - CASE WHEN length(body) > 5000 THEN 10 ELSE 0 END
WHERE spoken = seq;

UPDATE events SET importance = (
    SELECT coalesce(max(e.importance), 0) FROM events e
    WHERE e.tenant = events.tenant AND e.conversation = events.conversation AND e.branch = events.branch
        AND e.seq BETWEEN events.turn_first AND events.seq);

UPDATE events SET left_importance = coalesce((
    SELECT p.importance FROM events p
    WHERE p.tenant = events.tenant AND p.conversation = events.conversation AND p.branch = events.branch
        AND p.seq = events.seq - 1), 0)
WHERE turn_first = seq;

CREATE INDEX events_importance ON events (tenant, conversation, branch, left_importance, seq) WHERE turn_first = seq;
