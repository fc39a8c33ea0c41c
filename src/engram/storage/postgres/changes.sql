-- listen --
LISTEN engram_keys;

-- tell_keys --
-- Notifies all processes, when the transaction is committed, that keys of an organisation changed.
SELECT pg_notify('engram_keys', :organization_id);

-- timeline --
-- Returns a name that changes when a standby is promoted.
SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
