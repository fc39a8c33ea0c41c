-- A repeated key is answered again only if the request is the same; NULL: stored by an older version.
ALTER TABLE idempotency ADD COLUMN request_sha256 bytea;
