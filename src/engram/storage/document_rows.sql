-- load_documents --
-- Returns the columns of `DocumentRow` of those that exist among the ids of a JSON list. The plus
-- makes SQLite look them up.
SELECT document.number, document.id, document.memory, memory.id, memory.record, memory.valid_from,
    document.state, document.name, document.media_type, document.tier, document.size_bytes,
    document.sha256, document.is_converted, document.text_bytes, document.text_bytes_indexed,
    document.created_at, document.waits_since, document.parts, document.part_sha256,
    document.announced_bytes, document.problem, document.options, document.chunker
FROM document LEFT JOIN memory
    ON memory.organization_id = :organization_id AND memory.number = document.memory
WHERE +document.organization_id = :organization_id
    AND document.id IN (SELECT value FROM json_each(:ids));

-- documents_of_memories --
-- Returns the ids of the documents of the memories of a JSON list of ids.
SELECT document_id FROM memory
WHERE +organization_id = :organization_id AND id IN (SELECT value FROM json_each(:ids))
    AND document_id IS NOT NULL;

-- owned_documents --
-- Returns the ids of the documents of those memories of a JSON list of ids that are searched, and
-- not immutable unless asked for.
SELECT document_id FROM memory
WHERE +organization_id = :organization_id AND id IN (SELECT value FROM json_each(:ids))
    AND record IS NOT NULL AND document_id IS NOT NULL AND immutable <= :immutable;

-- delete_document --
DELETE FROM document WHERE organization_id = :organization_id AND number = :number;

-- record_size --
-- Returns how many messages a record has, and the bytes that are stored with them.
SELECT message_count, content_bytes FROM conversation
WHERE organization_id = :organization_id AND number = :record;

-- rest_document --
UPDATE document SET
    state = 'forgotten', waits_since = NULL, text_bytes_indexed = 0, chunker = NULL
WHERE organization_id = :organization_id AND number = :number;

-- queue_document --
-- A conversion that failed is tried again.
UPDATE document SET
    state = 'indexing', waits_since = :now,
    text_bytes = CASE WHEN problem IS NULL OR is_converted = 0 THEN text_bytes END,
    text_bytes_indexed = 0, chunker = NULL, problem = NULL
WHERE organization_id = :organization_id AND number = :number;

-- chunk_place --
-- Returns the bytes of a chunk in its document, and its headings.
SELECT metadata FROM message WHERE +organization_id = :organization_id AND key = :key;

-- shorten_document --
-- Sets the indexed bytes back to where the chunk with the key `first` begins. Without the chunker's state
-- the document is indexed from the beginning again, unless it is removed before.
UPDATE document SET
    state = 'indexing', waits_since = :now, chunker = NULL,
    text_bytes_indexed =
        (SELECT /*sqlite:*/ metadata ->> 'start_byte'
             /*postgres: (metadata::json ->> 'start_byte')::bigint */
         FROM message
         WHERE message.organization_id = :organization_id AND message.key = :first)
WHERE organization_id = :organization_id AND number = :number;

-- shorten_record --
UPDATE conversation SET message_count = :messages
WHERE organization_id = :organization_id AND number = :record;
