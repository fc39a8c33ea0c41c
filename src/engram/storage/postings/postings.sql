-- message_facts --
-- Returns key, characters, moment and whether nobody said it, of the messages of a JSON list.
SELECT key, characters, coalesce(occurred_at, created_at), role = 'document' FROM message
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys));
