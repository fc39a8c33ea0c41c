-- listen --
LISTEN engram_work; LISTEN engram_keys;

-- tell_work --
-- Tells all processes of work, each line being who tells and of which organisation.
SELECT pg_notify('engram_work', line) FROM unnest(CAST(:lines AS text[])) AS line;

-- tell_keys --
-- Tells all processes that keys of an organisation are gone, when the transaction is committed.
SELECT pg_notify('engram_keys', :organization_id);
