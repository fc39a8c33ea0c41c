-- seal --
-- Has every process refuse these rows, and say where they are now.
UPDATE meta SET is_deleted = 1, moved_to = :home, moved_number = :number
WHERE organization_id = :organization_id;

-- go_on --
-- Has the revision of a copy go on behind that of its source, which processes have seen.
UPDATE meta SET revision = greatest(revision, CAST(:revision AS bigint))
WHERE organization_id = :organization_id;

-- try_lock --
-- Held until the connection ends, so that two processes never move the same organisation.
SELECT pg_try_advisory_lock(hashtextextended('engram move ' || :public_id, 0));
