-- get_file --
-- Returns the number and has_file of an organisation's file.
SELECT number, has_file FROM organization WHERE organization_id = :organization_id;

-- record_file --
-- Changes no row when the organisation has been deleted.
UPDATE organization SET has_file = 1 WHERE organization_id = :organization_id;

-- plan_removal --
INSERT INTO removal (number, organization_id)
SELECT number, organization_id FROM organization WHERE organization_id = :organization_id;

-- list_removals --
-- Returns number and organization_id of files still to be removed.
SELECT number, organization_id FROM removal ORDER BY number;

-- finish_removal --
DELETE FROM removal WHERE organization_id = :organization_id;
