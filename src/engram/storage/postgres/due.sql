-- Claims of due work. The table is distributed like all of an organisation's: `find_due` is the only statement that asks
-- all servers of a cluster, for background work and never for a request, and locks nothing. What it found is claimed
-- in one transaction for each organisation, on its server.

-- find_due --
-- Returns organization_id and kind of work that is due and not leased, the one due longest first.
SELECT organization_id, kind FROM due
WHERE (due_at <= :now OR due_at > :due_max)
    AND (lease_until IS NULL OR lease_until <= :now OR lease_until > :lease_max)
    AND kind IN (SELECT value FROM json_each(:kinds))
ORDER BY due_at
LIMIT :limit;

-- lock_due --
-- Returns the kinds of an organisation that are due, but those that somebody claims or marks at this moment.
SELECT kind FROM due
WHERE organization_id = :organization_id AND kind IN (SELECT value FROM json_each(:kinds))
    AND (due_at <= :now OR due_at > :due_max)
    AND (lease_until IS NULL OR lease_until <= :now OR lease_until > :lease_max)
FOR UPDATE SKIP LOCKED;

-- lease_locked --
UPDATE due SET lease_until = :until
WHERE organization_id = :organization_id AND kind IN (SELECT value FROM json_each(:kinds));

-- find_present --
-- Returns the public id of an organisation, no row if it was deleted or moved.
SELECT public_id FROM meta WHERE organization_id = :organization_id AND is_deleted = 0;
