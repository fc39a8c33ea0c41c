-- get_file --
-- Returns number, has_file and moved_to of an organisation.
SELECT number, has_file, moved_to FROM organization WHERE organization_id = :organization_id;

-- list_files --
-- Returns the organisations that have a file, oldest first; every version of the schema can answer.
SELECT organization_id FROM organization WHERE has_file = 1 ORDER BY number;

-- record_file --
-- Changes no row when the organisation has been deleted or moved.
UPDATE organization SET has_file = 1 WHERE organization_id = :organization_id AND moved_to IS NULL;

-- seal --
-- Records the address that an organisation was moved to; NULL if it is here again.
UPDATE organization SET moved_to = :moved_to WHERE organization_id = :organization_id;

-- plan_removal --
INSERT INTO removal (number, organization_id)
SELECT number, organization_id FROM organization WHERE organization_id = :organization_id;

-- list_removals --
-- Returns number and organization_id of files still to be removed.
SELECT number, organization_id FROM removal ORDER BY number;

-- finish_removal --
DELETE FROM removal WHERE organization_id = :organization_id;

-- list_named --
-- Returns the organisations that may have files: present, being removed, or being moved here.
SELECT organization_id FROM organization
UNION SELECT organization_id FROM removal
UNION SELECT organization_id FROM move;

-- integrity --
PRAGMA integrity_check(20);

-- foreign_keys --
-- Returns the tables that refer to missing rows.
PRAGMA foreign_key_check;
