-- add_session --
INSERT INTO page_session
    (secret_hash, kind, organization_id, key_id, actor, operator_hash, created_at, expires_at)
VALUES
    (:secret_hash, :kind, :organization_id, :key_id, :actor, :operator_hash, :created_at,
     :expires_at);

-- find_session --
-- Returns who is signed in, and the hash of the key's secret. It names no organisation: that is what it finds.
SELECT session.organization_id, session.key_id, session.actor, session.operator_hash,
       session.created_at, session.expires_at, key.secret_hash
FROM page_session AS session
LEFT JOIN api_key AS key ON key.key_id = session.key_id
WHERE session.secret_hash = :secret_hash AND session.kind = :kind AND session.expires_at > :now;

-- choose_organization --
-- Lets an operator act for an organisation.
UPDATE page_session SET organization_id = :organization_id
WHERE secret_hash = :secret_hash AND kind = 'session' AND operator_hash IS NOT NULL;

-- end_session --
DELETE FROM page_session WHERE secret_hash = :secret_hash;

-- drop_ended --
-- Removes what has expired, and the sessions of keys that have ended.
DELETE FROM page_session
WHERE expires_at <= :now
   OR key_id IN (SELECT key_id FROM api_key
                 WHERE revoked_at IS NOT NULL OR expires_at <= :now);
