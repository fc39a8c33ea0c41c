-- Pieces have keys made by `piece_key` (`model/row_keys.py`).

-- content_of --
-- Returns encoding and content of what the memory shows, and number and bytes of the body.
SELECT content_encoding, CAST(content AS BLOB), number, size_bytes FROM document
WHERE +organization_id = :organization_id AND id = :id;

-- add_piece --
INSERT INTO document_piece (key, organization_id, size_bytes, content_encoding, sha256, content)
VALUES (:key, :organization_id, :size_bytes, :content_encoding, :sha256, :content);

-- get_piece --
-- Returns encoding, hash and content of a piece.
SELECT content_encoding, sha256, content FROM document_piece
WHERE organization_id = :organization_id AND key = :key;

-- delete_pieces --
-- Returns the bytes of each.
DELETE FROM document_piece
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
RETURNING size_bytes;
