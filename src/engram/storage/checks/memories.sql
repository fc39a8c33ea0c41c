-- memories --
-- Returns number, id, record, version, hash and document of every memory, and of its record: id,
-- whether the project is the memory's, how many messages it has, hash of the first and whether its
-- time is.
SELECT memory.number, memory.id, memory.record, memory.version, memory.sha256, memory.document_id,
    conversation.id, conversation.project = memory.project,
    (SELECT count(*) FROM message
     WHERE message.organization_id = :organization_id
         AND message.key BETWEEN memory.record << 24 AND (memory.record << 24) + 16777215),
    message.sha256,
    message.occurred_at /*sqlite:*/ IS /*postgres: IS NOT DISTINCT FROM */ memory.valid_from
FROM memory
LEFT JOIN conversation
    ON conversation.organization_id = :organization_id AND conversation.number = memory.record
LEFT JOIN message
    ON message.organization_id = :organization_id AND message.key = (memory.record << 24) + 1
WHERE +memory.organization_id = :organization_id
ORDER BY memory.number;

-- tags_of --
-- Returns the tags of a memory and those of its record, each as a JSON list.
SELECT /*sqlite:*/ json(tags) /*postgres: tags::jsonb::text */,
    (SELECT json_group_array(tag) FROM
        (SELECT tag FROM conversation_tag
         WHERE conversation_tag.organization_id = :organization_id AND conversation = record
         ORDER BY position))
FROM memory
WHERE memory.organization_id = :organization_id AND number = :number;

-- versions_of --
-- Returns version, whether its fields are JSON, hash, bytes, encoding and content of the versions
-- of a memory, the newest first.
SELECT version, /*sqlite:*/ json_valid(fields) /*postgres: fields IS JSON */, sha256, content_bytes, content_encoding,
    CAST(content AS BLOB)
FROM memory_version
WHERE organization_id = :organization_id AND memory = :number
ORDER BY version DESC;

-- lone_records --
-- Returns the ids of records that no memory has.
SELECT conversation.id FROM conversation
WHERE organization_id = :organization_id AND conversation.number >> 32 = 1
    AND conversation.number NOT IN
        (SELECT record FROM memory
         WHERE organization_id = :organization_id AND record IS NOT NULL);

-- purged_and_present --
-- Returns the ids of memories that have a tombstone.
SELECT memory.id FROM memory JOIN tombstone
    ON tombstone.organization_id = :organization_id AND tombstone.id = memory.id
WHERE memory.organization_id = :organization_id;

-- labels_of --
-- Returns project and tags of a memory that has a certain record.
SELECT project, tags FROM memory
WHERE organization_id = :organization_id AND number = :number AND record = :record;

-- repair_project --
UPDATE conversation SET project = :project
WHERE organization_id = :organization_id AND number = :record;

-- repair_bytes --
UPDATE memory_version SET content_bytes = :content_bytes
WHERE organization_id = :organization_id AND memory = :number AND version = :version
    AND content IS NOT NULL;
