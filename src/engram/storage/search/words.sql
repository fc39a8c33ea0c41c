-- search_state --
-- Returns how many windows there are, how many words they have together, the revision, and how many
-- messages wait for deep vectors.
SELECT chunks, window_words, word_revision, pending
FROM counters JOIN upkeep ON upkeep.organization_id = :organization_id
WHERE counters.organization_id = :organization_id;

-- find_conversation --
-- Returns its number.
SELECT number FROM conversation
WHERE organization_id = :organization_id AND id = :id AND number < 4294967296;

-- is_in_conversation --
AND key >> 24 = :number

-- is_conversation --
AND number = :number

-- is_in_conversations --
AND key >> 24 IN
    (SELECT number FROM conversation
     WHERE organization_id = :organization_id /*conditions*/)

-- has_agent --
AND agent_id = :agent_id

-- has_project --
AND project = :project

-- has_tags --
AND number IN
    (SELECT conversation FROM conversation_tag
     WHERE organization_id = :organization_id AND tag IN (SELECT value FROM json_each(:tags))
     GROUP BY conversation HAVING count(*) = json_array_length(:tags))

-- has_role --
AND role = :role

-- is_said_since --
AND coalesce(occurred_at, created_at) >= :since

-- is_said_before --
AND coalesce(occurred_at, created_at) < :before
