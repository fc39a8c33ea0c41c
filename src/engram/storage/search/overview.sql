-- Each statement walks an index from its newest entry on, over at most `scanned` entries.

-- newest_memories --
-- Returns record, importance, time and project of the newest current memories of a group, whose condition is
-- put in for `group`.
SELECT record, importance, coalesce(valid_from, updated_at), project FROM memory /*by_number*/
WHERE organization_id = :organization_id AND record IS NOT NULL /*group*/
    AND number > coalesce(
        (SELECT number FROM memory /*by_number*/
         WHERE organization_id = :organization_id AND record IS NOT NULL /*group*/
         ORDER BY number DESC LIMIT 1 OFFSET :scanned), 0)
    /*conditions*/
ORDER BY number DESC
LIMIT :limit;

-- tagged_memories --
-- Returns the same of memories with a tag. Their records have numbers from 2^32 to 2^33; a cross join makes
-- SQLite begin with the tag.
SELECT record, importance, coalesce(valid_from, updated_at), project
FROM conversation_tag AS tagged CROSS JOIN memory
WHERE tagged.organization_id = :organization_id AND tagged.tag = :value
    AND tagged.conversation < 8589934592
    AND tagged.conversation > coalesce(
        (SELECT conversation FROM conversation_tag
         WHERE organization_id = :organization_id AND tag = :value
             AND conversation BETWEEN 4294967296 AND 8589934591
         ORDER BY conversation DESC LIMIT 1 OFFSET :scanned), 4294967295)
    AND memory.organization_id = :organization_id AND memory.record = tagged.conversation
    /*conditions*/
ORDER BY tagged.conversation DESC
LIMIT :limit;

-- is_current --
-- It is valid now, and no other memory supersedes it.
AND (expires_at IS NULL OR expires_at > :now)
AND (valid_from IS NULL OR valid_from <= :now)
AND (valid_to IS NULL OR valid_to > :now)
AND NOT EXISTS
    (SELECT 1 FROM relation
     WHERE organization_id = :organization_id AND target = memory.number
         AND relation_type = 'supersedes')

-- has_importance --
-- As in the index: `importance < 2` would be taken for the range to walk.
AND importance NOT IN (2, 3, 4) AND importance = :value

-- has_type --
AND memory_type <> 'context' AND memory_type = :value

-- has_category --
AND category <> 'general' AND category = :value

-- is_in_project --
AND project = :project

-- is_in_category --
AND category = :category

-- is_document --
AND document_id IS NOT NULL

-- is_unresolved --
AND NOT EXISTS
    (SELECT 1 FROM relation
     WHERE organization_id = :organization_id AND source = memory.number
         AND relation_type = 'resolved_by')

-- latest_conversations --
-- Returns number, length, time of the last change and project of conversations, the last changed first.
SELECT number, message_count, updated_at, project FROM conversation
WHERE organization_id = :organization_id AND number < 4294967296 AND number NOT IN
    (SELECT conversation FROM leaving WHERE organization_id = :organization_id) /*conditions*/
ORDER BY updated_at DESC, number DESC
LIMIT :limit;

-- tagged_conversations --
-- Returns the same of conversations with a tag, the last created first.
SELECT number, message_count, updated_at, project
FROM conversation_tag AS tagged CROSS JOIN conversation
WHERE tagged.organization_id = :organization_id AND tagged.tag = :value
    AND tagged.conversation < 4294967296
    AND tagged.conversation > coalesce(
        (SELECT conversation FROM conversation_tag
         WHERE organization_id = :organization_id AND tag = :value AND conversation < 4294967296
         ORDER BY conversation DESC LIMIT 1 OFFSET :scanned), 0)
    AND conversation.organization_id = :organization_id
    AND conversation.number = tagged.conversation
    AND conversation.number NOT IN
        (SELECT conversation FROM leaving WHERE organization_id = :organization_id)
    /*conditions*/
ORDER BY tagged.conversation DESC
LIMIT :limit;

-- last_said --
-- Returns the key of the last message of a range that a user or assistant said.
SELECT key FROM message
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
    AND role IN ('user', 'assistant')
ORDER BY key DESC
LIMIT 1;
