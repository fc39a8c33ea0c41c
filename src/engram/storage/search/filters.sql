-- allowed_conversations --
-- Returns the numbers of the conversations that meet the conditions.
SELECT number FROM conversation
WHERE organization_id = :organization_id /*conditions*/
ORDER BY number;

-- allowed_messages --
-- Returns the keys of the messages that meet the conditions.
SELECT key FROM message
WHERE organization_id = :organization_id /*conditions*/
ORDER BY key;

-- matching_records --
-- Returns the records of the memories that meet the conditions, as one text: reading thousands of
-- rows one by one takes twice as long.
SELECT group_concat(record) FROM memory /*indexed*/
WHERE organization_id = :organization_id AND record IS NOT NULL /*conditions*/;

-- untimely_records --
-- Returns the records of memories that are expired or not valid now, as one text.
SELECT group_concat(record) FROM memory
WHERE organization_id = :organization_id AND record IS NOT NULL
    AND (valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires_at IS NOT NULL)
    AND (valid_from > :now OR valid_to <= :now OR expires_at <= :now);

-- is_between --
-- Keys of one kind of record are contiguous.
AND key BETWEEN :first_key AND :last_key

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
