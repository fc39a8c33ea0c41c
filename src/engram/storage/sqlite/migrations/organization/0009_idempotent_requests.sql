-- A repeated key is answered again only if the request is the same.
ALTER TABLE idempotency ADD COLUMN request_sha256 BLOB;
