-- message_numbers --
-- Returns key, characters, time and whether it is a document, of the messages of a JSON list.
SELECT key, characters, coalesce(occurred_at, created_at), role = 'document' FROM message
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys));
