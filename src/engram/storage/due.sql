-- When an organisation has background work next; the list of all that a process claims from is made of this.

-- mark_due --
-- Changes no row if the work is due by then anyway.
INSERT INTO due (organization_id, kind, due_at) VALUES (:organization_id, :kind, :due_at)
ON CONFLICT (organization_id, kind) DO UPDATE SET due_at = excluded.due_at
WHERE due.due_at > excluded.due_at;

-- put_due --
INSERT INTO due (organization_id, kind, due_at) VALUES (:organization_id, :kind, :due_at)
ON CONFLICT (organization_id, kind) DO UPDATE SET due_at = excluded.due_at;

-- lease_due --
-- Where the rows of organisations are the list: has nobody claim the work before a time.
UPDATE due SET lease_until = :lease_until WHERE organization_id = :organization_id AND kind = :kind;

-- remove_due --
DELETE FROM due WHERE organization_id = :organization_id AND kind = :kind;

-- is_due --
SELECT 1 FROM due WHERE organization_id = :organization_id AND kind = :kind;

-- next_vectors --
-- Returns when the first message that waits for vectors can be claimed; NULL if there is none. So do the others.
SELECT min(/*sqlite:*/ max /*postgres: greatest */ (available_at, coalesce(lease_until, 0)))
FROM unembedded WHERE organization_id = :organization_id;

-- next_documents --
-- Of documents that wait for their index, and uploads that may expire.
SELECT min(CASE state WHEN 'uploading' THEN waits_since + :upload_life
    ELSE /*sqlite:*/ max /*postgres: greatest */ (available_at, coalesce(lease_until, 0)) END)
FROM document
WHERE organization_id = :organization_id AND state IN ('uploading', 'indexing')
    AND waits_since IS NOT NULL;

-- next_erasing --
SELECT min(/*sqlite:*/ max /*postgres: greatest */ (available_at, coalesce(lease_until, 0)))
FROM job WHERE organization_id = :organization_id AND kind IN ('erase', 'remove_conversations');

-- next_jobs --
-- Of jobs, of what expires in the trash, and of rules of retention. What is held stays after its time.
SELECT min(at) FROM
    (SELECT /*sqlite:*/ max /*postgres: greatest */ (available_at, coalesce(lease_until, 0)) AS at
     FROM job
     WHERE organization_id = :organization_id AND kind NOT IN ('erase', 'remove_conversations')
     UNION ALL
     SELECT /*sqlite:*/ max /*postgres: greatest */ (expires_at, CAST(:later AS bigint)) FROM trash
     WHERE organization_id = :organization_id
     UNION ALL
     SELECT CAST(:later AS bigint) FROM retention_rule
     WHERE organization_id = :organization_id) AS times;

-- next_scrub --
-- A pass that has begun goes on at once.
SELECT min(CASE WHEN scrub_table IS NULL AND scrub_finished_at <= :now
    THEN scrub_finished_at + :interval ELSE coalesce(scrub_until, 0) END)
FROM upkeep WHERE organization_id = :organization_id;
