-- load_proofs --
-- Returns key and hash of those that exist among the keys of a JSON list.
SELECT key, sha256 FROM message
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys));
