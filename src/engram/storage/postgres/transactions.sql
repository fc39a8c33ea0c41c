-- Each of these is several statements that take one round trip; the row of the last that returns one
-- counts. They are sent one by one: the organisation is named by SET, and Citus passes the whole text of
-- a SET on to the server of the rows. Citus takes a bare slice of an array in an UPDATE for an assignment
-- to that slice, and crashes; inside of a function it does not.

-- begin_read --
-- Returns the revision of an organisation; no row if it was deleted.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL engram.organization_id = :organization_id;
SELECT revision FROM meta
WHERE organization_id = :organization_id AND public_id = :public_id AND is_deleted = 0;

-- begin_write --
-- Waits for whoever writes in the organisation; returns its new revision, no row if it was deleted.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL engram.organization_id = :organization_id;
UPDATE meta SET revision = revision + 1,
    recent_writes = coalesce((CAST(:mark AS bigint) || recent_writes)[1:32], '{}')
WHERE organization_id = :organization_id AND public_id = :public_id AND is_deleted = 0
RETURNING revision;

-- find_write --
-- Waits for whoever writes in the organisation; returns whether a write is one of the last, and the
-- revision.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL engram.organization_id = :organization_id;
SELECT CAST(:mark AS bigint) = ANY (recent_writes), revision FROM meta
WHERE organization_id = :organization_id AND public_id = :public_id FOR UPDATE;

-- begin_control_read --
-- Returns a row.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SET LOCAL engram.control = 'all';
SELECT 0;

-- begin_control_write --
-- Waits for whoever writes in the control tables; returns their new revision.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL engram.control = 'all';
UPDATE control_state SET revision = revision + 1,
    recent_writes = coalesce((CAST(:mark AS bigint) || recent_writes)[1:32], '{}')
WHERE number = 1
RETURNING revision;

-- find_control_write --
-- Waits for whoever writes in the control tables; returns whether a write is one of the last, and
-- the revision.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL engram.control = 'all';
SELECT CAST(:mark AS bigint) = ANY (recent_writes), revision FROM control_state
WHERE number = 1 FOR UPDATE;

-- begin_removal --
-- Waits for whoever removes the same rows; returns a row unless they are removed. All rows of a big
-- organisation take longer than a request may.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL statement_timeout = 0;
SET LOCAL engram.organization_id = :organization_id;
SELECT number FROM removal WHERE number = :organization_id FOR UPDATE;

-- begin_claim --
-- Begins to claim work of an organisation, beside whoever writes in it; returns a row.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL engram.organization_id = :organization_id;
SELECT 0;

-- choose --
-- Lets the rest of a transaction see the rows of an organisation.
SET LOCAL engram.organization_id = /*organization*/;

-- reach_organization --
-- Has the rest of a transaction see nothing in the control tables but one organisation.
SET LOCAL engram.control = '';
SET LOCAL engram.public_id = :public_id;
SELECT 0;

-- reach_secret --
-- Has the rest of a transaction see nothing in the control tables but one key; returns whose it is.
SET LOCAL engram.control = '';
SET LOCAL engram.secret_hash = :secret_hash;
SELECT organization_id FROM api_key WHERE secret_hash = :secret_hash;
