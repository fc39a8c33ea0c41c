-- message_numbers --
-- Returns key, characters, time and whether it is a document, of the messages of a JSON list: all numbers in
-- one text, or in bytes, as a row of its own for each takes thrice the time.
SELECT /*sqlite:*/ group_concat(
    key || ',' || characters || ',' || coalesce(occurred_at, created_at) || ',' || (role = 'document')
) /*postgres: string_agg(
    int8send(key) || int8send(characters) || int8send(coalesce(occurred_at, created_at))
        || int8send(CASE WHEN role = 'document' THEN 1 ELSE 0 END), ''
) */ FROM message
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys));
