-- get_owner --
-- Returns organization_id, public_id, is_deleted of the one row; none in a file just created.
-- The only statement without the organisation: it asks for it.
SELECT organization_id, public_id, is_deleted FROM meta;

-- claim_file --
-- Does nothing in a file that has an owner.
INSERT INTO meta (organization_id, public_id)
SELECT :organization_id, :public_id WHERE NOT EXISTS (SELECT 1 FROM meta);

-- mark_deleted --
UPDATE meta SET is_deleted = 1 WHERE organization_id = :organization_id;
