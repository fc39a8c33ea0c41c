-- put_feedback --
-- Adds what was said of a memory, or replaces what was said of it for the same event.
INSERT INTO feedback
    (memory, number, organization_id, helpful, event_id, failure_class, actor, created_at)
SELECT :memory,
    coalesce(
        (SELECT number FROM feedback
         WHERE organization_id = :organization_id AND memory = :memory AND event_id = :event_id),
        1 + (SELECT max(number) FROM feedback
             WHERE organization_id = :organization_id AND memory = :memory),
        1),
    :organization_id, :helpful, :event_id, :failure_class, :actor, :now
WHERE true
ON CONFLICT (memory, number) DO UPDATE SET
    helpful = excluded.helpful,
    failure_class = excluded.failure_class,
    actor = excluded.actor,
    created_at = excluded.created_at
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
