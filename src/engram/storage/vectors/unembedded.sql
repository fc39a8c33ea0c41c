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

-- delete_unembedded --
DELETE FROM unembedded
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last;
