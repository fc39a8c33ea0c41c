-- Hashes of whole rows: `bookkeeping/row_hashes.py`. Rows that were stored before have none until they are
-- hashed by the scrubber or by `engram doctor --repair`.
ALTER TABLE conversation ADD COLUMN row_hash bytea;
ALTER TABLE message ADD COLUMN row_hash bytea;
ALTER TABLE episode ADD COLUMN row_hash bytea;
ALTER TABLE memory ADD COLUMN row_hash bytea;
ALTER TABLE memory_version ADD COLUMN row_hash bytea;
ALTER TABLE relation ADD COLUMN row_hash bytea;
ALTER TABLE feedback ADD COLUMN row_hash bytea;
ALTER TABLE tombstone ADD COLUMN row_hash bytea;
ALTER TABLE document ADD COLUMN row_hash bytea;

ALTER TABLE organization ADD COLUMN row_hash bytea;
ALTER TABLE api_key ADD COLUMN row_hash bytea;

-- How far the scrubber has read, and what it has found.
ALTER TABLE upkeep ADD COLUMN scrub_table text COLLATE "C";
ALTER TABLE upkeep ADD COLUMN scrub_key text COLLATE "C";
ALTER TABLE upkeep ADD COLUMN scrub_began_at bigint;
ALTER TABLE upkeep ADD COLUMN scrub_finished_at bigint;
ALTER TABLE upkeep ADD COLUMN scrub_rows bigint NOT NULL DEFAULT 0;
ALTER TABLE upkeep ADD COLUMN scrub_faults bigint NOT NULL DEFAULT 0;
ALTER TABLE upkeep ADD COLUMN scrub_faults_last bigint NOT NULL DEFAULT 0;
ALTER TABLE upkeep ADD COLUMN scrub_found text COLLATE "C";
ALTER TABLE upkeep ADD COLUMN scrub_owner text COLLATE "C";
ALTER TABLE upkeep ADD COLUMN scrub_until bigint;
