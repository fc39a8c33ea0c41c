-- Each of the first five is several statements that take one round trip; the last one's row counts.

-- begin_read --
-- Returns the revision of an organisation; no row if it was deleted.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT set_config('engram.organization_id', :organization_id::text, true);
SELECT revision FROM meta WHERE organization_id = :organization_id AND is_deleted = 0;

-- begin_write --
-- Waits for whoever writes in the organisation; returns its new revision and the transaction's id.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT set_config('engram.organization_id', :organization_id::text, true);
UPDATE meta SET revision = revision + 1 WHERE organization_id = :organization_id AND is_deleted = 0
RETURNING revision, pg_current_xact_id()::text;

-- begin_control_read --
-- Returns a row.
BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
SELECT 0;

-- begin_control_write --
-- Waits for whoever writes in the control tables; returns a number and the transaction's id.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT pg_advisory_xact_lock(:lock);
SELECT 0, pg_current_xact_id()::text;

-- begin_removal --
-- Waits for whoever removes the same rows; returns a number and the transaction's id, no row if they
-- are removed.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT set_config('engram.organization_id', :organization_id::text, true);
SELECT number, pg_current_xact_id()::text FROM removal WHERE number = :organization_id FOR UPDATE;

-- get_outcome --
-- Returns 'committed', 'aborted' or 'in progress'.
SELECT pg_xact_status(CAST(:transaction AS xid8));
