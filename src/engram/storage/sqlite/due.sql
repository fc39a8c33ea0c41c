-- The list of due work in the control file.

-- note_due --
-- Does nothing for an organisation that was deleted.
INSERT INTO due (organization_id, kind, due_at, token)
SELECT organization_id, :kind, :due_at, :token FROM organization
WHERE organization_id = :organization_id
ON CONFLICT (organization_id, kind) DO UPDATE
SET due_at = min(due_at, excluded.due_at), lease_until = NULL, token = excluded.token;

-- list_with_files --
SELECT organization_id FROM organization WHERE has_file = 1;

-- find_due --
-- Returns organization_id and kind of work that is due and not leased, the one due longest first.
SELECT organization_id, kind FROM due JOIN organization USING (organization_id)
WHERE (due_at <= :now OR due_at > :due_max)
    AND (lease_until IS NULL OR lease_until <= :now OR lease_until > :lease_max)
    AND kind IN (SELECT value FROM json_each(:kinds)) AND moved_to IS NULL
ORDER BY due_at
LIMIT :limit;

-- claim_due --
UPDATE due SET lease_until = :until WHERE organization_id = :organization_id AND kind = :kind;

-- get_token --
SELECT token FROM due WHERE organization_id = :organization_id AND kind = :kind;

-- put_due --
UPDATE due SET due_at = :due_at, lease_until = :lease_until
WHERE organization_id = :organization_id AND kind = :kind AND token = :token;

-- remove_due --
DELETE FROM due WHERE organization_id = :organization_id AND kind = :kind AND token = :token;
