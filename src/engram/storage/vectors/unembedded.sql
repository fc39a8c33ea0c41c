-- add_unembedded --
INSERT INTO unembedded (organization_id, key) VALUES (:organization_id, :key)
ON CONFLICT DO NOTHING;

-- add_unembedded_last --
-- Lets a chunk of a document wait behind all messages and the chunks before it.
INSERT INTO unembedded (number, organization_id, key)
SELECT CASE WHEN min(number) < 0 THEN min(number) ELSE 0 END - 1, :organization_id, :key FROM unembedded
WHERE organization_id = :organization_id
ON CONFLICT DO NOTHING;

-- is_unembedded --
-- Returns a row if a message waits.
SELECT 1 FROM unembedded WHERE organization_id = :organization_id AND key = :key;

-- list_unembedded --
-- Returns the keys of all messages that wait.
SELECT key FROM unembedded WHERE organization_id = :organization_id;

-- lowest_unembedded --
-- Returns the lowest number of a message that waits, or 0 if that is lower.
SELECT CASE WHEN min(number) < 0 THEN min(number) ELSE 0 END FROM unembedded
WHERE organization_id = :organization_id;

-- oldest_unembedded --
-- Returns when the oldest message was stored of those at the ends of the queue; NULL if none waits. Numbers grow
-- above 0 with every message and shrink below it with every chunk, which puts those that wait longest on both
-- sides of 0; of a backlog that was added at once, the lowest number is the oldest.
SELECT min(created_at) FROM message
WHERE organization_id = :organization_id AND key IN
    (SELECT key FROM
        (SELECT key FROM unembedded WHERE organization_id = :organization_id AND number > 0
         ORDER BY number LIMIT :limit) AS stored
     UNION ALL
     SELECT key FROM
        (SELECT key FROM unembedded WHERE organization_id = :organization_id AND number <= 0
         ORDER BY number DESC LIMIT :limit) AS chunks
     UNION ALL
     SELECT key FROM
        (SELECT key FROM unembedded WHERE organization_id = :organization_id
         ORDER BY number LIMIT :limit) AS lowest);

-- add_all_unembedded --
-- Adds every message that has no vector of the deep embedder behind those that wait, the newest first
-- and those of documents last. Numbers are counted down from `lowest`: a server of a cluster that
-- adds rows by itself must not draw any.
INSERT INTO unembedded (organization_id, number, key)
SELECT message.organization_id,
    :lowest - row_number() OVER (PARTITION BY message.organization_id
        ORDER BY message.key < 144115188075855872 DESC, message.created_at DESC, message.key DESC),
    message.key
FROM message
WHERE message.organization_id = :organization_id
    AND NOT EXISTS
        (SELECT 1 FROM unembedded
         WHERE unembedded.organization_id = :organization_id
             AND unembedded.organization_id = message.organization_id
             AND unembedded.key = message.key)
    AND NOT EXISTS
        (SELECT 1 FROM vector
         WHERE vector.organization_id = :organization_id
             AND vector.organization_id = message.organization_id
             AND vector.key = message.key AND vector.embedder = :deep);

-- delete_unembedded --
DELETE FROM unembedded
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last;
