-- find_conversations --
-- Returns number, whether it is the default one, and messages of the conversation with that public id.
SELECT number, is_default, message_count FROM conversation
WHERE organization_id = :organization_id AND id = :id AND number < 4294967296;

-- has_default --
SELECT 1 FROM conversation WHERE organization_id = :organization_id AND is_default = 1;

-- import_conversation --
INSERT INTO conversation
    (number, organization_id, id, title, agent_id, project, metadata, is_default, created_at,
     updated_at, row_hash)
VALUES
    (:number, :organization_id, :id, :title, :agent_id, :project, :metadata, :is_default, :created_at,
     :updated_at, :row_hash);

-- import_captured --
INSERT INTO captured_message (organization_id, conversation, identity, sequence, row_hash)
VALUES (:organization_id, :conversation, :identity, :sequence, :row_hash)
ON CONFLICT DO NOTHING;

-- find_relation --
-- Returns strength and time.
SELECT strength, created_at FROM relation
WHERE organization_id = :organization_id AND source = :source AND target = :target
    AND relation_type = :relation_type;

-- import_feedback --
-- Returns a row if it is new.
INSERT INTO feedback
    (memory, number, organization_id, helpful, event_id, failure_class, actor, created_at, row_hash)
VALUES
    (:memory, :number, :organization_id, :helpful, :event_id, :failure_class, :actor, :created_at,
     :row_hash)
ON CONFLICT DO NOTHING
RETURNING 1;

-- find_feedback --
SELECT helpful, event_id, failure_class, actor, created_at FROM feedback
WHERE organization_id = :organization_id AND memory = :memory AND number = :number;

-- import_tombstone --
-- Returns a row if it is new.
INSERT INTO tombstone (id, organization_id, sha256, removed_at, actor, row_hash)
VALUES (:id, :organization_id, :sha256, :removed_at, :actor, :row_hash)
ON CONFLICT DO NOTHING
RETURNING 1;

-- import_forgotten --
-- Returns a row if it is new.
INSERT INTO forgotten_session (organization_id, id, forgotten_at, actor, row_hash)
VALUES (:organization_id, :id, :forgotten_at, :actor, :row_hash)
ON CONFLICT DO NOTHING
RETURNING 1;

-- begin_document --
-- Adds a document whose body follows, as an upload that nobody can finish but an import.
INSERT INTO document (organization_id, id, state, waits_since, name, media_type, created_at)
VALUES (:organization_id, :id, 'uploading', :now, :name, :media_type, :created_at);

-- find_tombstone --
-- Returns a row if a memory was removed for good, or lies in the trash.
SELECT 1 FROM tombstone WHERE organization_id = :organization_id AND id = :id
UNION ALL
SELECT 1 FROM trash WHERE organization_id = :organization_id AND id = :id;
