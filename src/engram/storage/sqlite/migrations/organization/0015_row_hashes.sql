-- Hashes of whole rows: `bookkeeping/row_hashes.py`. Rows that were stored before have none until they are
-- hashed by the scrubber or by `engram doctor --repair`.
ALTER TABLE conversation ADD COLUMN row_hash BLOB;
ALTER TABLE message ADD COLUMN row_hash BLOB;
ALTER TABLE episode ADD COLUMN row_hash BLOB;
ALTER TABLE memory ADD COLUMN row_hash BLOB;
ALTER TABLE memory_version ADD COLUMN row_hash BLOB;
ALTER TABLE relation ADD COLUMN row_hash BLOB;
ALTER TABLE feedback ADD COLUMN row_hash BLOB;
ALTER TABLE tombstone ADD COLUMN row_hash BLOB;
ALTER TABLE document ADD COLUMN row_hash BLOB;

-- How far the scrubber has read, and what it has found.
ALTER TABLE upkeep ADD COLUMN scrub_table TEXT;
ALTER TABLE upkeep ADD COLUMN scrub_key TEXT;
ALTER TABLE upkeep ADD COLUMN scrub_began_at INTEGER;
ALTER TABLE upkeep ADD COLUMN scrub_finished_at INTEGER;
ALTER TABLE upkeep ADD COLUMN scrub_rows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE upkeep ADD COLUMN scrub_faults INTEGER NOT NULL DEFAULT 0;
ALTER TABLE upkeep ADD COLUMN scrub_faults_last INTEGER NOT NULL DEFAULT 0;
ALTER TABLE upkeep ADD COLUMN scrub_found TEXT;
ALTER TABLE upkeep ADD COLUMN scrub_owner TEXT;
ALTER TABLE upkeep ADD COLUMN scrub_until INTEGER;
