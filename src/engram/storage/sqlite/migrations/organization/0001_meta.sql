-- Whose file this is. One row, written when the file is created; every transaction reads it first,
-- so that a process which still holds a deleted organisation's file can neither read nor write it.

CREATE TABLE meta (
    organization_id INTEGER PRIMARY KEY,
    public_id       TEXT    NOT NULL,
    is_deleted      INTEGER NOT NULL DEFAULT 0 CHECK (is_deleted IN (0, 1))
) STRICT;
