-- Statements on the control tables of either database.

-- list_organizations --
-- Returns number, organization_id, name, is_local, messages_max, bytes_max, created_at, row_hash, moved_to, oldest first.
SELECT /*sqlite:*/ number /*postgres: coalesce(row_number, number) */, organization_id, name,
    is_local, messages_max, bytes_max, created_at, row_hash,
    /*sqlite:*/ moved_to /*postgres: NULL */
FROM organization ORDER BY number;

-- add_organization --
INSERT INTO organization
    (number, organization_id, name, is_local, messages_max, bytes_max, created_at, row_hash
     /*sqlite:*/ , has_file /*postgres: */)
VALUES
    (:number, :organization_id, :name, :is_local, :messages_max, :bytes_max, :created_at, :row_hash
     /*sqlite:*/ , 1 /*postgres: */);

-- note_due --
-- Where the control tables list due work, every kind of it is looked for once.
/*sqlite:*/ INSERT INTO due (organization_id, kind, due_at, token)
SELECT :organization_id, value, 0, abs(random() / 2)
FROM json_each('["vectors", "documents", "erasing", "jobs", "scrub"]')
/*postgres: SELECT CAST(:organization_id AS text) */;

-- reserve --
-- Returns a number that no organisation has or will have; `unreserve` removes the row again.
INSERT INTO organization (organization_id, name, is_local, created_at)
VALUES (:organization_id, '', 0, 0)
RETURNING number;

-- unreserve --
DELETE FROM organization WHERE organization_id = :organization_id;

-- list_keys --
-- Returns the keys of an organisation, oldest first.
SELECT key_id, organization_id, name, secret_hash, prefix, scopes, created_at, expires_at,
    revoked_at, last_used_at, toolsets, row_hash
FROM api_key WHERE organization_id = :organization_id ORDER BY number;

-- add_key --
INSERT INTO api_key
    (key_id, organization_id, name, secret_hash, prefix, scopes, created_at, expires_at,
     revoked_at, last_used_at, toolsets, row_hash)
VALUES
    (:key_id, :organization_id, :name, :secret_hash, :prefix, :scopes, :created_at, :expires_at,
     :revoked_at, :last_used_at, :toolsets, :row_hash);

-- list_usage --
-- Returns the daily usage of an organisation, oldest first.
SELECT organization_id, day, requests, searches, embedded_texts, bytes_stored, messages
FROM usage_day WHERE organization_id = :organization_id ORDER BY day;

-- add_usage --
INSERT INTO usage_day
    (organization_id, day, requests, searches, embedded_texts, bytes_stored, messages)
VALUES
    (:organization_id, :day, :requests, :searches, :embedded_texts, :bytes_stored, :messages);

-- list_key_usage --
-- Returns the daily requests of an organisation's keys, oldest first.
SELECT organization_id, key_id, day, requests
FROM key_day WHERE organization_id = :organization_id ORDER BY day, key_id;

-- add_key_usage --
INSERT INTO key_day (organization_id, key_id, day, requests)
VALUES (:organization_id, :key_id, :day, :requests);

-- list_audit --
-- Returns the audit trail of an organisation, oldest first.
SELECT audit_id, organization_id, at, actor, action, subject, details
FROM /*sqlite:*/ audit /*postgres: control_audit */
WHERE organization_id = :organization_id ORDER BY number;

-- list_audited --
-- Returns the organisations that have an audit trail.
SELECT DISTINCT organization_id FROM /*sqlite:*/ audit /*postgres: control_audit */
ORDER BY organization_id;

-- add_audit --
-- Skips rows that exist.
INSERT INTO /*sqlite:*/ audit /*postgres: control_audit */
    (audit_id, organization_id, at, actor, action, subject, details)
VALUES (:audit_id, :organization_id, :at, :actor, :action, :subject, :details)
ON CONFLICT DO NOTHING;

-- list_moves --
-- Returns organization_id, number, state, table_name, last_key of every move to this database.
SELECT organization_id, number, state, table_name, last_key FROM move;

-- begin_move --
INSERT INTO move (organization_id, number, state, changed_at)
VALUES (:organization_id, :number, 'copying', :now)
ON CONFLICT (organization_id) DO UPDATE SET
    number = excluded.number, state = excluded.state, table_name = NULL, last_key = NULL,
    changed_at = excluded.changed_at;

-- advance_move --
UPDATE move SET table_name = :table_name, last_key = :last_key, changed_at = :now
WHERE organization_id = :organization_id;

-- change_state --
UPDATE move SET state = :state, changed_at = :now WHERE organization_id = :organization_id;
