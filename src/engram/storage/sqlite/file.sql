-- control --
-- Returns file_id, commits, appended, chain of the one row of the control file, which nobody owns.
SELECT file_id, commits, appended, chain, NULL, NULL, 0, NULL FROM meta;

-- organization --
-- Returns file_id, commits, appended, chain, organization_id, public_id, is_deleted, moved_to of the
-- one row; none in a file just created. The only statement without the organisation: it asks for it.
SELECT file_id, commits, appended, chain, organization_id, public_id, is_deleted, moved_to FROM meta;

-- claim_file --
-- Does nothing in a file that has an owner.
INSERT INTO meta (organization_id, public_id)
SELECT :organization_id, :public_id WHERE NOT EXISTS (SELECT 1 FROM meta);

-- put_position --
-- Of the one row, in either kind of file.
UPDATE meta SET file_id = :file_id, commits = :commits, appended = :appended, chain = :chain;

-- mark_deleted --
UPDATE meta SET is_deleted = 1 WHERE organization_id = :organization_id;

-- seal --
-- Has every process refuse to write, and name the database that replaces the file; NULL ends that.
UPDATE meta SET moved_to = :moved_to WHERE organization_id = :organization_id;
