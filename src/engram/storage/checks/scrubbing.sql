-- The lease of the scrubber and its progress are columns of `upkeep`.

-- due --
-- A pass has begun or is due, and nobody else works on it. What ends later than any lease can, or was finished
-- later than now, was written by a clock that is ahead.
AND (scrub_until IS NULL OR scrub_until <= :now OR scrub_until > :lease_max OR scrub_owner = :owner)
    AND (scrub_table IS NOT NULL OR scrub_finished_at IS NULL OR scrub_finished_at <= :since
        OR scrub_finished_at > :now)

-- find_scrub --
-- Returns a row if there is something to read.
SELECT 1 FROM upkeep WHERE organization_id = :organization_id {due};

-- claim_scrub --
-- Leases the pass, and begins one if none has begun; returns how far it is.
UPDATE upkeep SET
    scrub_owner = :owner, scrub_until = :until,
    scrub_began_at = CASE WHEN scrub_table IS NULL THEN :now ELSE scrub_began_at END,
    scrub_rows = CASE WHEN scrub_table IS NULL THEN 0 ELSE scrub_rows END,
    scrub_faults = CASE WHEN scrub_table IS NULL THEN 0 ELSE scrub_faults END,
    scrub_table = coalesce(scrub_table, :first)
WHERE organization_id = :organization_id {due}
RETURNING scrub_table, scrub_key, scrub_rows, scrub_faults,
    CASE WHEN scrub_faults = 0 THEN '[]' ELSE coalesce(scrub_found, '[]') END;

-- put_scrub --
-- Stores how far the pass is, and gives the lease back; changes nothing if it was lost.
UPDATE upkeep SET
    scrub_table = :table, scrub_key = :key, scrub_rows = :rows,
    scrub_faults = cast(:faults AS bigint),
    scrub_found = CASE WHEN cast(:faults AS bigint) > 0 THEN :found ELSE scrub_found END,
    scrub_owner = NULL, scrub_until = NULL
WHERE organization_id = :organization_id AND scrub_owner = :owner;

-- finish_scrub --
UPDATE upkeep SET
    scrub_table = NULL, scrub_key = NULL, scrub_finished_at = :now, scrub_rows = :rows,
    scrub_faults = 0, scrub_faults_last = :faults, scrub_found = :found,
    scrub_owner = NULL, scrub_until = NULL
WHERE organization_id = :organization_id AND scrub_owner = :owner;

-- get_scrub --
-- Returns when the last pass was finished, how many faults it and the present one have found, and the first.
SELECT scrub_finished_at, scrub_faults_last, scrub_faults, scrub_found
FROM upkeep WHERE organization_id = :organization_id;

-- message_sizes --
-- Returns the characters of the next messages.
SELECT characters FROM message
WHERE +organization_id = :organization_id AND key > :after
ORDER BY key LIMIT :rows_max;

-- message_contents --
-- Returns encoding, hash and content of messages after a key.
SELECT key, content_encoding, sha256, CAST(content AS BLOB) FROM message
WHERE +organization_id = :organization_id AND key > :after
ORDER BY key LIMIT :rows_max;

-- version_contents --
-- Returns memory, version, encoding, hash and content of the versions with a text of their own.
SELECT memory, version, content_encoding, sha256, CAST(content AS BLOB) FROM memory_version
WHERE +organization_id = :organization_id AND content IS NOT NULL
    AND (memory, version) > (:memory, :version) AND (memory, version) <= (:last_memory, :last_version)
ORDER BY memory, version;

-- pieces --
-- Returns key, encoding, hash and content of the next pieces of documents.
SELECT key, content_encoding, sha256, content FROM document_piece
WHERE +organization_id = :organization_id AND key > :after
ORDER BY key LIMIT :rows_max;
