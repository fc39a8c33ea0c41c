-- Hashes of whole rows: `bookkeeping/row_hashes.py`. Rows that were stored before have none.
ALTER TABLE organization ADD COLUMN row_hash BLOB;
ALTER TABLE api_key ADD COLUMN row_hash BLOB;
