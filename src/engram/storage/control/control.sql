-- create_organization --
INSERT INTO organization
    (organization_id, name, is_local, messages_max, bytes_max, created_at, row_hash)
VALUES
    (:organization_id, :name, :is_local, :messages_max, :bytes_max, :created_at, :row_hash);

-- local_organization --
-- Returns the organisation of this machine's owner, or nothing.
SELECT organization_id, name, is_local, messages_max, bytes_max, created_at,
    /*sqlite:*/ NULL /*postgres: home */, row_hash
FROM organization WHERE is_local = 1;

-- get_organization --
SELECT organization_id, name, is_local, messages_max, bytes_max, created_at,
    /*sqlite:*/ NULL /*postgres: home */, row_hash
FROM organization WHERE organization_id = :organization_id;

-- find_moved --
-- Returns the address that an organisation was moved to, or NULL.
SELECT /*sqlite:*/ moved_to /*postgres: NULL */ FROM organization WHERE organization_id = :organization_id;

-- list_organizations --
-- Returns every organisation, oldest first.
SELECT organization_id, name, is_local, messages_max, bytes_max, created_at,
    /*sqlite:*/ NULL /*postgres: home */, row_hash
FROM organization ORDER BY number;

-- change_organization --
UPDATE organization SET
    name = :name, messages_max = :messages_max, bytes_max = :bytes_max, row_hash = :row_hash
WHERE organization_id = :organization_id;

-- add_usage --
-- Adds to a day of an organisation that is still here.
INSERT INTO usage_day
    (organization_id, day, requests, searches, messages, embedded_texts, bytes_stored)
SELECT organization_id, :day, :requests, :searches, :messages, :embedded_texts, :bytes_stored
FROM organization WHERE organization_id = :organization_id
ON CONFLICT (organization_id, day) DO UPDATE SET
    requests = usage_day.requests + excluded.requests,
    searches = usage_day.searches + excluded.searches,
    messages = usage_day.messages + excluded.messages,
    embedded_texts = usage_day.embedded_texts + excluded.embedded_texts,
    bytes_stored = excluded.bytes_stored;

-- drop_usage --
-- Removes what is too old.
DELETE FROM usage_day WHERE organization_id = :organization_id AND day < :oldest;

-- list_usage --
-- Returns day, requests, searches, messages, embedded_texts, bytes_stored of an organisation, newest first.
SELECT day, requests, searches, messages, embedded_texts, bytes_stored FROM usage_day
WHERE organization_id = :organization_id
ORDER BY day DESC LIMIT :limit;

-- add_key_usage --
-- Adds to a day of a key that is still here. Names no organisation: the ids come from keys that were
-- found by their secrets.
INSERT INTO key_day (organization_id, key_id, day, requests)
SELECT organization_id, key_id, :day, :requests FROM api_key WHERE key_id = :key_id
ON CONFLICT (organization_id, key_id, day) DO UPDATE SET
    requests = key_day.requests + excluded.requests;

-- drop_key_usage --
-- Removes what is too old; names no organisation either.
DELETE FROM key_day WHERE key_id = :key_id AND day < :oldest;

-- list_key_usage --
-- Returns key_id, day and requests of an organisation's keys since a day, the newest first.
SELECT key_id, day, requests FROM key_day
WHERE organization_id = :organization_id AND day >= :since
ORDER BY day DESC, key_id;

-- delete_organization --
-- Its keys go with it.
DELETE FROM organization WHERE organization_id = :organization_id;

-- find_deletion --
-- Returns a row if the organisation was deleted, and has not been brought back since.
SELECT 1 FROM /*sqlite:*/ audit /*postgres: control_audit */
WHERE organization_id = :organization_id AND action = 'delete_organization'
    AND NOT EXISTS (SELECT 1 FROM organization WHERE organization_id = :organization_id)
LIMIT 1;

-- create_key --
INSERT INTO api_key
    (key_id, organization_id, name, secret_hash, prefix, scopes, toolsets, created_at, expires_at,
     row_hash)
VALUES
    (:key_id, :organization_id, :name, :secret_hash, :prefix, :scopes, :toolsets, :created_at,
     :expires_at, :row_hash);

-- count_live_keys --
SELECT count(*) FROM api_key
WHERE organization_id = :organization_id
  AND revoked_at IS NULL
  AND (expires_at IS NULL OR expires_at > :now);

-- get_key --
SELECT key_id, organization_id, name, prefix, scopes, toolsets,
       created_at, expires_at, revoked_at, last_used_at, secret_hash, row_hash
FROM api_key WHERE organization_id = :organization_id AND key_id = :key_id;

-- list_keys --
-- Returns the keys of an organisation, oldest first.
SELECT key_id, organization_id, name, prefix, scopes, toolsets,
       created_at, expires_at, revoked_at, last_used_at, secret_hash, row_hash
FROM api_key WHERE organization_id = :organization_id ORDER BY number;

-- all_keys --
-- Returns the same columns of everybody's keys, oldest first; for the operator.
SELECT key_id, organization_id, name, prefix, scopes, toolsets,
       created_at, expires_at, revoked_at, last_used_at, secret_hash, row_hash
FROM api_key ORDER BY number;

-- put_key_hash --
UPDATE api_key SET row_hash = :row_hash
WHERE organization_id = :organization_id AND key_id = :key_id AND row_hash IS NULL;

-- put_organization_hash --
UPDATE organization SET row_hash = :row_hash
WHERE organization_id = :organization_id AND row_hash IS NULL;

-- revoke_key --
-- Changes no row when the key is unknown or revoked already.
UPDATE api_key SET revoked_at = :revoked_at, row_hash = :row_hash
WHERE organization_id = :organization_id AND key_id = :key_id AND revoked_at IS NULL;

-- restore_key --
-- Changes no row when the key is unknown or not revoked.
UPDATE api_key SET revoked_at = NULL, row_hash = :row_hash
WHERE organization_id = :organization_id AND key_id = :key_id AND revoked_at IS NOT NULL;

-- end_key --
-- Never lengthens the life of a key.
UPDATE api_key SET expires_at = :expires_at, row_hash = :row_hash
WHERE organization_id = :organization_id AND key_id = :key_id
  AND (expires_at IS NULL OR expires_at > :expires_at);

-- count_keys --
SELECT count(*) FROM api_key WHERE organization_id = :organization_id;

-- find_owner --
-- Returns whose a key is. It names no organisation: the key was found by its secret.
SELECT organization_id FROM api_key WHERE key_id = :key_id;

-- find_address --
SELECT 1 FROM key_address
WHERE organization_id = :organization_id AND key_id = :key_id AND address = :address;

-- note_address --
INSERT INTO key_address (organization_id, key_id, address, seen_at)
VALUES (:organization_id, :key_id, :address, :at)
ON CONFLICT (organization_id, key_id, address) DO UPDATE SET seen_at = excluded.seen_at;

-- forget_addresses --
-- Keeps those that a key was last used from.
DELETE FROM key_address
WHERE organization_id = :organization_id AND key_id = :key_id AND address NOT IN
    (SELECT address FROM key_address
     WHERE organization_id = :organization_id AND key_id = :key_id
     ORDER BY seen_at DESC, address LIMIT :limit);

-- find_key --
-- Returns a key and its organisation. It names none: the organisation is what it finds.
SELECT key.key_id, key.organization_id, key.name, key.prefix, key.scopes, key.toolsets,
       key.created_at, key.expires_at, key.revoked_at, key.last_used_at, key.secret_hash,
       key.row_hash,
       organization.organization_id, organization.name, organization.is_local,
       organization.messages_max, organization.bytes_max, organization.created_at,
       /*sqlite:*/ NULL /*postgres: organization.home */, organization.row_hash
FROM api_key AS key
JOIN organization ON organization.organization_id = key.organization_id
WHERE key.secret_hash = :secret_hash;

-- touch_key --
-- Names no organisation: the ids come from keys that were found by their secrets.
UPDATE api_key SET last_used_at = :at
WHERE key_id = :key_id AND (last_used_at IS NULL OR last_used_at < :at);

-- add_audit --
INSERT INTO /*sqlite:*/ audit /*postgres: control_audit */
    (audit_id, organization_id, at, actor, action, subject, details)
VALUES (:audit_id, :organization_id, :at, :actor, :action, :subject, :details);

-- list_audit --
-- Returns an organisation's rows older than :before, newest first.
SELECT audit_id, at, actor, action, subject, details
FROM /*sqlite:*/ audit /*postgres: control_audit */
WHERE organization_id = :organization_id AND at < :before
ORDER BY at DESC, number DESC LIMIT :limit;

-- list_all_audit --
-- Returns everybody's rows older than :before, newest first; for the operator.
SELECT audit_id, at, actor, action, subject, details
FROM /*sqlite:*/ audit /*postgres: control_audit */
WHERE at < :before
ORDER BY at DESC, number DESC LIMIT :limit;

-- ping --
-- Reads a page of a table, not only the schema.
SELECT number FROM organization LIMIT 1;
