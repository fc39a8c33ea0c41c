-- list_projects --
-- Returns each project that has memories and how many of them are searched, by name.
SELECT project, count(record) FROM memory
WHERE organization_id = :organization_id
GROUP BY project
ORDER BY project;

-- count_memories --
-- Returns type, importance, how many are searched and how many are not, how many of the searched
-- have a summary, and when the first and the last of the searched were stored.
SELECT memory_type, importance, count(record), count(*) - count(record),
    count(summary) FILTER (WHERE record IS NOT NULL),
    min(created_at) FILTER (WHERE record IS NOT NULL),
    max(created_at) FILTER (WHERE record IS NOT NULL)
FROM memory
WHERE organization_id = :organization_id /*project*/
GROUP BY memory_type, importance;

-- count_chunks --
-- Returns how many texts of memories are searched, and how many wait for deep vectors.
SELECT coalesce(sum(message_count), 0),
    coalesce(sum((SELECT count(*) FROM unembedded
        WHERE unembedded.organization_id = :organization_id
            AND key > conversation.number << 24 AND key < (conversation.number + 1) << 24)), 0)
FROM memory JOIN conversation
    ON conversation.organization_id = :organization_id AND conversation.number = memory.record
WHERE memory.organization_id = :organization_id /*project*/;

-- count_relations --
-- Returns how many relations go out from memories.
SELECT count(*) FROM memory JOIN relation
    ON relation.organization_id = :organization_id AND relation.source = memory.number
WHERE memory.organization_id = :organization_id /*project*/;
