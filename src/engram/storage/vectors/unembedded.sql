-- add_unembedded --
INSERT INTO unembedded (organization_id, key) VALUES (:organization_id, :key)
ON CONFLICT DO NOTHING;

-- add_unembedded_last --
-- Lets a chunk of a document wait behind all messages and the chunks before it.
INSERT INTO unembedded (number, organization_id, key)
SELECT CASE WHEN min(number) < 0 THEN min(number) ELSE 0 END - 1, :organization_id, :key FROM unembedded
WHERE organization_id = :organization_id
ON CONFLICT DO NOTHING;

-- copy_unembedded --
-- Lets a message wait if another does.
INSERT INTO unembedded (organization_id, key)
SELECT :organization_id, :new FROM unembedded
WHERE organization_id = :organization_id AND key = :key;

-- add_all_unembedded --
-- Adds every message that has no vector of the deep embedder, the newest last, and those of
-- documents before all others.
INSERT INTO unembedded (organization_id, key)
SELECT :organization_id, key FROM message
WHERE organization_id = :organization_id
    AND key NOT IN (SELECT key FROM unembedded WHERE organization_id = :organization_id)
    AND NOT EXISTS
        (SELECT 1 FROM vector
         WHERE vector.organization_id = :organization_id AND vector.key = message.key
             AND vector.embedder = :deep)
ORDER BY key < 144115188075855872, created_at, key;

-- find_unembedded --
-- Returns number, key and characters of waiting messages whose time has come, the newest first.
SELECT unembedded.number, unembedded.key, characters
FROM unembedded JOIN message
    ON message.organization_id = :organization_id AND message.key = unembedded.key
WHERE unembedded.organization_id = :organization_id AND available_at <= :now
    AND (lease_until IS NULL OR lease_until <= :now)
ORDER BY unembedded.number DESC
LIMIT :limit;

-- lease_unembedded --
-- Leases the messages of a JSON list of numbers; returns number, key and attempts of each.
UPDATE unembedded SET lease_owner = :owner, lease_until = :until, attempts = attempts + 1
WHERE organization_id = :organization_id AND number IN (SELECT value FROM json_each(:numbers))
RETURNING number, key, attempts;

-- has_leased --
-- Returns a row if a waiting message is leased; the newest are leased first.
SELECT 1 FROM unembedded
WHERE organization_id = :organization_id AND lease_until > :now
ORDER BY number DESC
LIMIT 1;

-- renew_unembedded --
UPDATE unembedded SET lease_until = :until
WHERE organization_id = :organization_id AND lease_owner = :owner
    AND key IN (SELECT value FROM json_each(:keys));

-- postpone_unembedded --
UPDATE unembedded SET lease_owner = NULL, lease_until = NULL, available_at = :available_at
WHERE organization_id = :organization_id AND lease_owner = :owner
    AND key IN (SELECT value FROM json_each(:keys));

-- finish_unembedded --
-- Removes a waiting message if it is still leased to `owner`.
DELETE FROM unembedded
WHERE organization_id = :organization_id AND key = :key AND lease_owner = :owner;

-- delete_unembedded --
DELETE FROM unembedded
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last;
