-- add_message --
INSERT INTO message
    (key, organization_id, role, characters, occurred_at, created_at, name, tool_call_id,
     tool_name, content_encoding, sha256, metadata, content)
VALUES
    (:key, :organization_id, :role, :characters, :occurred_at, :created_at, :name, :tool_call_id,
     :tool_name, :content_encoding, :sha256, :metadata, :content);

-- message_sizes --
-- Returns the characters of the messages with keys `first` to `last`, in order.
SELECT characters FROM message
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
ORDER BY key;

-- delete_messages --
DELETE FROM message
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last;

-- find_idempotency --
-- Returns conversation id, first and last sequence of what a key stored after `since`, and the hash
-- of the request; NULL is of a row that an older version wrote.
SELECT conversation.id, first_sequence, last_sequence, request_sha256
FROM idempotency JOIN conversation
    ON conversation.organization_id = :organization_id
    AND conversation.number = idempotency.conversation
WHERE idempotency.organization_id = :organization_id AND key = :key
    AND idempotency.created_at > :since;

-- add_idempotency --
INSERT INTO idempotency
    (organization_id, key, conversation, first_sequence, last_sequence, created_at, request_sha256)
VALUES
    (:organization_id, :key, :conversation, :first_sequence, :last_sequence, :now, :request_sha256);

-- purge_idempotency --
-- Removes some rows that are too old to count, that of a key among them; every new row removes more
-- than one. Returns their keys.
DELETE FROM idempotency
WHERE organization_id = :organization_id AND key IN
    (SELECT key FROM
        (SELECT key FROM idempotency
         WHERE organization_id = :organization_id AND created_at <= :since
         ORDER BY created_at LIMIT :limit) AS old
     UNION ALL
     SELECT :key)
RETURNING key;
