-- What the file knows of its own history, which its mark beside it repeats. One row.
CREATE TABLE meta (
    number   INTEGER PRIMARY KEY CHECK (number = 1),
    file_id  BLOB,                                     -- random; NULL until it has a mark
    commits  INTEGER NOT NULL DEFAULT 0,               -- that changed anything
    appended INTEGER NOT NULL DEFAULT 0,               -- audit rows
    chain    BLOB    NOT NULL DEFAULT x''              -- SHA-256 over the one before and the audit rows since
) STRICT;

INSERT INTO meta (number) VALUES (1);

-- The address of the database that an organisation was moved to.
ALTER TABLE organization ADD COLUMN moved_to TEXT;
