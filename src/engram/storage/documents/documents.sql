-- count_uploads --
-- Returns how many uploads have not expired.
SELECT count(*) FROM document
WHERE organization_id = :organization_id AND state = 'uploading' AND waits_since > :since;

-- expired_uploads --
-- Returns the numbers of uploads that rest since a moment or longer.
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

-- add_memory --
-- Returns the number of the memory that owns a document.
INSERT INTO memory
    (organization_id, id, record, project, memory_type, category, source, importance, tags,
     immutable, episode_id, pattern_confidence, valid_from, valid_to, expires_at, storage_mode,
     document_id, sha256, created_at, updated_at)
VALUES
    (:organization_id, :id, :record, :project, :memory_type, :category, :source, :importance, :tags,
     :immutable, :episode_id, :pattern_confidence, :valid_from, :valid_to, :expires_at, 'document',
     :document_id, :sha256, :now, :now)
RETURNING number;

-- finish_upload --
UPDATE document SET
    memory = :memory, state = 'indexing', waits_since = :now, tier = :tier, sha256 = :sha256,
    is_converted = :is_converted, text_bytes = :text_bytes, part_sha256 = NULL, options = NULL,
    content_encoding = :content_encoding, content = :content
WHERE organization_id = :organization_id AND number = :number;

-- find_unindexed --
-- Returns the id of the document that was served longest ago among those that wait and can be had;
-- or of a certain one, if it is among them.
SELECT id FROM document
WHERE organization_id = :organization_id AND state = 'indexing' AND waits_since IS NOT NULL
    AND (lease_until IS NULL OR lease_until <= :now OR lease_owner = :owner)
    AND id = coalesce(:id, id)
ORDER BY waits_since
LIMIT 1;

-- has_unindexed --
SELECT 1 FROM document
WHERE organization_id = :organization_id AND state = 'indexing' AND waits_since IS NOT NULL
LIMIT 1;

-- lease_document --
-- It goes behind all others, also where the clock stands still.
UPDATE document SET
    lease_owner = :owner, lease_until = :until,
    waits_since = /*sqlite:*/ max /*postgres: greatest */ (:now, 1 +
        (SELECT max(waits_since) FROM document
         WHERE organization_id = :organization_id AND state = 'indexing'
             AND waits_since IS NOT NULL))
WHERE organization_id = :organization_id AND id = :id;

-- postpone_document --
-- Until then it belongs to nobody.
UPDATE document SET lease_owner = :nobody, lease_until = :until, problem = :problem
WHERE organization_id = :organization_id AND id = :id AND lease_owner = :owner
    AND state = 'indexing';

-- advance_document --
UPDATE document SET text_bytes_indexed = :indexed, chunker = :chunker, problem = NULL
WHERE organization_id = :organization_id AND number = :number;

-- end_indexing --
UPDATE document SET
    state = :state, waits_since = NULL, lease_owner = NULL, lease_until = NULL, chunker = NULL,
    problem = CASE WHEN text_bytes = 0 THEN problem END
WHERE organization_id = :organization_id AND number = :number;

-- text_hashes --
-- Returns the hashes of the pieces with keys `first` to `last`.
SELECT sha256 FROM document_piece
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
ORDER BY key;

-- put_text --
-- Ends the wait for a text; `content` is what the memory shows from now on.
UPDATE document SET
    text_bytes = :text_bytes, problem = :problem, content_encoding = :content_encoding,
    content = :content
WHERE organization_id = :organization_id AND number = :number;

-- put_memory_hash --
UPDATE memory SET sha256 = :sha256
WHERE organization_id = :organization_id AND number = :memory;

-- put_version_hashes --
-- What a document was before differs from it in its fields alone.
UPDATE memory_version SET sha256 = :sha256
WHERE organization_id = :organization_id AND memory = :memory;
