-- The rules of a lease. `{table}` is one of those that hold background work, `{key}` the column that names a
-- piece of it.

-- claimable --
-- It is due and nobody holds it; the owner `again` may claim its own once more. What ends later than
-- any lease or delay can was written by a clock that is ahead, and counts as over.
AND (available_at <= :now OR available_at > :delay_max)
    AND (lease_until IS NULL OR lease_until <= :now OR lease_until > :lease_max
        OR lease_owner = :again)

-- held --
-- Leased to `owner`, of a JSON list of keys: also after expiry, until another claims it.
AND lease_owner = :owner AND {key} IN (SELECT value FROM json_each(:keys))

-- find_job --
-- Returns id, kind and subject of jobs of some kinds, the newest first.
SELECT id, kind, subject FROM job
WHERE organization_id = :organization_id AND kind IN (SELECT value FROM json_each(:kinds)) {claimable}
ORDER BY number DESC
LIMIT :limit;

-- list_jobs --
-- Returns kind, subject, attempts, available_at and lease_until of jobs, the oldest first.
SELECT kind, subject, attempts, available_at, lease_until FROM job
WHERE organization_id = :organization_id
ORDER BY number
LIMIT :limit;

-- find_unembedded --
-- Returns key and characters of messages that wait for deep vectors, the newest first.
SELECT unembedded.key, characters
FROM unembedded JOIN message
    ON message.organization_id = :organization_id AND message.key = unembedded.key
WHERE unembedded.organization_id = :organization_id {claimable}
ORDER BY unembedded.number DESC
LIMIT :limit;

-- find_document --
-- Returns the ids of documents that wait for their text or index, the one served longest ago first; or a
-- certain one, if it is among them.
SELECT id FROM document
WHERE organization_id = :organization_id AND state = 'indexing' AND waits_since IS NOT NULL
    AND id = coalesce(:id, id) {claimable}
ORDER BY waits_since, number
LIMIT :limit;

-- claim --
-- Leases a JSON list of work, whoever holds it; returns key and attempts of each.
UPDATE {table} SET lease_owner = :owner, lease_until = :until, attempts = attempts + 1
WHERE organization_id = :organization_id AND {key} IN (SELECT value FROM json_each(:keys))
RETURNING {key}, attempts;

-- list_held --
-- Returns key and attempts of the work that `owner` still holds.
SELECT {key}, attempts FROM {table}
WHERE organization_id = :organization_id {held};

-- is_leased --
-- Returns a row if any work is leased to anybody; the newest is leased first.
SELECT 1 FROM {table}
WHERE organization_id = :organization_id AND lease_until > :now AND lease_until <= :lease_max
ORDER BY number DESC
LIMIT 1;

-- renew --
UPDATE {table} SET lease_until = :until
WHERE organization_id = :organization_id {held};

-- release --
UPDATE {table} SET lease_owner = NULL, lease_until = NULL, available_at = :available_at
WHERE organization_id = :organization_id {held};

-- finish --
-- Returns the keys of the work that was removed.
DELETE FROM {table}
WHERE organization_id = :organization_id {held}
RETURNING {key};

-- reset --
-- Clears the lease and the attempts.
UPDATE {table} SET attempts = 0, available_at = 0, lease_owner = NULL, lease_until = NULL
WHERE organization_id = :organization_id AND {key} = :key;

-- enqueue_job --
-- Adds a job unless one of that kind and subject is waiting.
INSERT INTO job (organization_id, id, kind, subject, available_at)
VALUES (:organization_id, :id, :kind, :subject, :now)
ON CONFLICT DO NOTHING;

-- drop_repeated_job --
-- Removes a job if another of its kind and subject is waiting, so that releasing it makes no duplicate.
DELETE FROM job
WHERE organization_id = :organization_id AND id = :id
    AND EXISTS
        (SELECT 1 FROM job AS other
         WHERE other.organization_id = :organization_id AND other.kind = job.kind
             AND other.subject = job.subject AND other.lease_owner IS NULL);
