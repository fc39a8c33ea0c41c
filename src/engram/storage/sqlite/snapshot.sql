-- list_files --
-- Returns the organisations whose files have been created.
SELECT organization_id FROM organization WHERE has_file = 1 ORDER BY number;

-- get_version --
-- Returns the number of applied migrations.
PRAGMA user_version;

-- get_schema --
-- Returns the schema cookie. A statement that is not read to its end holds the snapshot.
PRAGMA schema_version;

-- get_position --
-- Returns file_id, commits, appended, chain of the one row, in either kind of file.
SELECT file_id, commits, appended, chain FROM meta;

-- get_number --
-- Returns the number of the organisation that a file belongs to. It asks for it, so it names none.
SELECT organization_id FROM meta;

-- get_counts --
SELECT conversations, messages, memories, documents, content_bytes FROM counters
WHERE organization_id = :organization_id;
