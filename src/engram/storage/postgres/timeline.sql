-- timeline --
-- Returns a name that changes when a standby is promoted.
SELECT left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
