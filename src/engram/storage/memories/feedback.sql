-- change_feedback --
-- Replaces what was said of a memory for the same event; returns a row if anything was.
UPDATE feedback SET
    helpful = :helpful, failure_class = :failure_class, actor = :actor, created_at = :now
WHERE organization_id = :organization_id AND memory = :memory AND event_id = :event_id
RETURNING number;

-- add_feedback --
-- Adds what was said of a memory; returns its number.
INSERT INTO feedback
    (memory, number, organization_id, helpful, event_id, failure_class, actor, created_at)
SELECT :memory,
    1 + (SELECT coalesce(max(number), 0) FROM feedback
         WHERE organization_id = :organization_id AND memory = :memory),
    :organization_id, :helpful, :event_id, :failure_class, :actor, :now
RETURNING number;

-- drop_feedback --
-- Removes what was said of a memory up to a number.
DELETE FROM feedback
WHERE organization_id = :organization_id AND memory = :memory AND number <= :upto;

-- count_feedback --
-- Returns each memory of a JSON list of which something was said, how often it helped, and how
-- often it did not.
SELECT memory, sum(helpful), sum(1 - helpful) FROM feedback
WHERE organization_id = :organization_id AND memory IN (SELECT value FROM json_each(:numbers))
GROUP BY memory;
