-- documents --
-- Returns the ids of all documents and uploads, with the content hash and the document of the memory
-- each belongs to.
SELECT document.id, memory.sha256, memory.document_id
FROM document NOT INDEXED
LEFT JOIN memory
    ON memory.organization_id = :organization_id AND memory.number = document.memory
WHERE document.organization_id = :organization_id
ORDER BY document.number;

-- pieces --
-- Returns key, size, encoding, hash and content of the pieces with keys `first` to `last`.
SELECT key, size_bytes, content_encoding, sha256, content FROM document_piece
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
ORDER BY key;

-- stray_pieces --
-- Returns how many pieces belong to no document.
SELECT count(*) FROM document_piece
WHERE organization_id = :organization_id AND key >> 24 NOT IN
    (SELECT number FROM document WHERE organization_id = :organization_id
     UNION ALL
     SELECT document FROM trash WHERE organization_id = :organization_id AND document IS NOT NULL);

-- delete_stray_pieces --
DELETE FROM document_piece
WHERE organization_id = :organization_id AND key >> 24 NOT IN
    (SELECT number FROM document WHERE organization_id = :organization_id
     UNION ALL
     SELECT document FROM trash WHERE organization_id = :organization_id AND document IS NOT NULL);

-- lone_records --
-- Returns the ids of records of chunks that no memory has.
SELECT conversation.id FROM conversation
WHERE organization_id = :organization_id AND conversation.number >> 32 = 2
    AND conversation.number NOT IN
        (SELECT record FROM memory
         WHERE organization_id = :organization_id AND record IS NOT NULL);

-- lost_documents --
-- Returns the ids of memories whose document is missing.
SELECT id FROM memory
WHERE organization_id = :organization_id AND document_id IS NOT NULL AND document_id NOT IN
    (SELECT document.id FROM document WHERE organization_id = :organization_id);

-- chunks --
-- Returns reference and time of each chunk of a record, in order.
SELECT /*sqlite:*/ CAST(content AS TEXT) /*postgres: convert_from(content, 'UTF8') */, occurred_at
FROM message
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
ORDER BY key;
