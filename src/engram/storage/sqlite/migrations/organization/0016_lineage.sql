-- What the file knows of its own history, which its mark beside it repeats, and where it was moved to.
ALTER TABLE meta ADD COLUMN file_id BLOB;                          -- random; NULL until it has a mark
ALTER TABLE meta ADD COLUMN commits INTEGER NOT NULL DEFAULT 0;    -- that changed anything
ALTER TABLE meta ADD COLUMN appended INTEGER NOT NULL DEFAULT 0;   -- messages, deleted ones included
ALTER TABLE meta ADD COLUMN chain BLOB NOT NULL DEFAULT x'';       -- SHA-256 over the one before and the messages since
ALTER TABLE meta ADD COLUMN moved_to TEXT;                         -- the address of the database that replaces it
