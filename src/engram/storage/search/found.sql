-- search_state --
-- Returns the number of windows and of their words, the revision of the word index, the number of
-- messages that wait for deep vectors, and the conversations that are being removed, as one text.
SELECT chunks, window_words, word_revision, pending,
    (SELECT group_concat(conversation) FROM leaving WHERE organization_id = :organization_id)
FROM counters JOIN upkeep ON upkeep.organization_id = :organization_id
WHERE counters.organization_id = :organization_id;

-- load_hashes --
-- Returns key and SHA-256 of those that exist among the keys of a JSON list.
SELECT key, sha256 FROM message
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys));

-- record_facts --
-- Returns record, number and importance of the memories whose records are in a JSON list.
SELECT record, number, importance FROM memory
WHERE +organization_id = :organization_id AND record IN (SELECT value FROM json_each(:records));

-- times_passed --
-- Returns how many validity and expiry times of memories have passed.
SELECT coalesce(sum(
    CASE WHEN valid_from <= :now THEN 1 ELSE 0 END
        + CASE WHEN valid_to <= :now THEN 1 ELSE 0 END
        + CASE WHEN expires_at <= :now THEN 1 ELSE 0 END), 0)
FROM memory
WHERE organization_id = :organization_id AND record IS NOT NULL
    AND (valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires_at IS NOT NULL);
