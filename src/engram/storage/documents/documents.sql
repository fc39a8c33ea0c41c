-- count_uploads --
-- Returns how many uploads have not expired.
SELECT count(*) FROM document
WHERE organization_id = :organization_id AND state = 'uploading' AND waits_since > :since;

-- expired_uploads --
-- Returns the numbers of uploads that got no part since a time.
SELECT number FROM document
WHERE organization_id = :organization_id AND state = 'uploading' AND waits_since <= :since;

-- add_upload --
INSERT INTO document
    (organization_id, id, state, waits_since, name, media_type, created_at, announced_bytes, options)
VALUES
    (:organization_id, :id, 'uploading', :now, :name, :media_type, :now, :announced_bytes, :options);

-- add_part --
UPDATE document
SET parts = parts + 1, part_sha256 = :sha256, size_bytes = :size_bytes, waits_since = :now
WHERE organization_id = :organization_id AND number = :number AND state = 'uploading';

-- delete_upload --
DELETE FROM document
WHERE organization_id = :organization_id AND number = :number AND state = 'uploading';

-- find_same --
-- Returns the id of the first document of those bytes that is searched in a project.
SELECT document.id FROM document JOIN memory
    ON memory.organization_id = :organization_id AND memory.number = document.memory
WHERE document.organization_id = :organization_id AND document.sha256 = :sha256
    AND memory.record IS NOT NULL AND memory.project = :project
    AND (memory.expires_at IS NULL OR memory.expires_at > :now)
    AND (memory.valid_to IS NULL OR memory.valid_to > :now)
ORDER BY document.number
LIMIT 1;

-- finish_upload --
UPDATE document SET
    memory = :memory, state = 'indexing', waits_since = :now, tier = :tier, sha256 = :sha256,
    is_converted = :is_converted, text_bytes = :text_bytes, part_sha256 = NULL, options = NULL,
    content_encoding = :content_encoding, content = :content
WHERE organization_id = :organization_id AND number = :number;

-- has_unindexed --
SELECT 1 FROM document
WHERE organization_id = :organization_id AND state = 'indexing' AND waits_since IS NOT NULL
LIMIT 1;

-- take_turn --
-- Puts a document at the end of the queue, also where the clock stands still.
UPDATE document SET waits_since = /*sqlite:*/ max /*postgres: greatest */ (:now, 1 +
    (SELECT max(waits_since) FROM document
     WHERE organization_id = :organization_id AND state = 'indexing' AND waits_since IS NOT NULL))
WHERE organization_id = :organization_id AND id = :id;

-- put_problem --
UPDATE document SET problem = :problem WHERE organization_id = :organization_id AND id = :id;

-- advance_document --
UPDATE document SET text_bytes_indexed = :indexed, chunker = :chunker, problem = NULL, attempts = 0
WHERE organization_id = :organization_id AND number = :number;

-- end_indexing --
UPDATE document SET
    state = :state, waits_since = NULL, chunker = NULL,
    problem = CASE WHEN text_bytes = 0 THEN problem END
WHERE organization_id = :organization_id AND number = :number;

-- text_hashes --
-- Returns the hashes of the pieces with keys `first` to `last`.
SELECT sha256 FROM document_piece
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
ORDER BY key;

-- put_text --
-- Stores the size of a text, or why there is none; `content` is what the memory shows from now on.
UPDATE document SET
    text_bytes = :text_bytes, problem = :problem, content_encoding = :content_encoding,
    content = :content, attempts = 0
WHERE organization_id = :organization_id AND number = :number;

-- put_memory_hash --
UPDATE memory SET sha256 = :sha256
WHERE organization_id = :organization_id AND number = :memory;

-- put_version_hashes --
-- Former versions of a document differ from it in their fields alone.
UPDATE memory_version SET sha256 = :sha256
WHERE organization_id = :organization_id AND memory = :memory;
