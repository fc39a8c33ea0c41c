-- enqueue_job --
-- Adds a job unless one of that kind and subject waits already.
INSERT INTO job (organization_id, id, kind, subject, available_at)
VALUES (:organization_id, :id, :kind, :subject, :now)
ON CONFLICT DO NOTHING;

-- find_claimable_jobs --
-- Returns the numbers of jobs, newest first, that wait or whose lease has expired.
SELECT number FROM job
WHERE organization_id = :organization_id
    AND kind IN (SELECT value FROM json_each(:kinds))
    AND available_at <= :now AND (lease_until IS NULL OR lease_until <= :now)
ORDER BY number DESC
LIMIT :limit;

-- claim_jobs --
-- Leases jobs of a JSON list of numbers; returns number, id, kind, subject and attempts of each.
UPDATE job SET lease_owner = :owner, lease_until = :until, attempts = attempts + 1
WHERE organization_id = :organization_id AND number IN (SELECT value FROM json_each(:numbers))
RETURNING number, id, kind, subject, attempts;

-- finish_job --
DELETE FROM job
WHERE organization_id = :organization_id AND id = :id
    AND lease_owner = :owner AND lease_until = :until;

-- finish_repeated_job --
-- Removes a leased job whose like waits already, so that giving it back makes no second one.
DELETE FROM job
WHERE organization_id = :organization_id AND id = :id
    AND lease_owner = :owner AND lease_until = :until
    AND EXISTS
        (SELECT 1 FROM job AS other
         WHERE other.organization_id = :organization_id AND other.kind = job.kind
             AND other.subject = job.subject AND other.lease_owner IS NULL);

-- postpone_job --
UPDATE job SET lease_owner = NULL, lease_until = NULL, available_at = :available_at
WHERE organization_id = :organization_id AND id = :id
    AND lease_owner = :owner AND lease_until = :until;
