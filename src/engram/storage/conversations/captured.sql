-- Identities of captured messages, and conversations that were deleted.

-- find_forgotten --
-- Returns a row if a conversation was deleted.
SELECT 1 FROM forgotten_session WHERE organization_id = :organization_id AND id = :id;

-- add_forgotten --
INSERT INTO forgotten_session (organization_id, id, forgotten_at, actor, row_hash)
VALUES (:organization_id, :id, :forgotten_at, :actor, :row_hash)
ON CONFLICT DO NOTHING;

-- find_captured --
-- Returns those of some identities that a conversation has; the plus makes SQLite use its key.
SELECT identity FROM captured_message
WHERE +organization_id = :organization_id AND conversation = :conversation
    AND identity IN (SELECT value FROM json_each(:identities));

-- add_captured --
INSERT INTO captured_message (organization_id, conversation, identity, sequence, row_hash)
VALUES (:organization_id, :conversation, :identity, :sequence, :row_hash);
