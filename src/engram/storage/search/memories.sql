-- matching_records --
-- Returns the records of the memories that meet the conditions, as one text: reading thousands of
-- rows one by one takes twice as long.
SELECT group_concat(record) FROM memory /*indexed*/
WHERE organization_id = :organization_id AND record IS NOT NULL /*conditions*/;

-- untimely_records --
-- Returns the records of memories that have expired, do not hold yet, or hold no more, as one text.
SELECT group_concat(record) FROM memory
WHERE organization_id = :organization_id AND record IS NOT NULL
    AND (valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires_at IS NOT NULL)
    AND (valid_from > :now OR valid_to <= :now OR expires_at <= :now);

-- moments_passed --
-- Returns how many beginnings and ends of memories' times have come.
SELECT coalesce(sum(
    CASE WHEN valid_from <= :now THEN 1 ELSE 0 END
        + CASE WHEN valid_to <= :now THEN 1 ELSE 0 END
        + CASE WHEN expires_at <= :now THEN 1 ELSE 0 END), 0)
FROM memory
WHERE organization_id = :organization_id AND record IS NOT NULL
    AND (valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires_at IS NOT NULL);

-- record_facts --
-- Returns record, number and importance of the memories whose records are in a JSON list.
SELECT record, number, importance FROM memory
WHERE +organization_id = :organization_id AND record IN (SELECT value FROM json_each(:records));

-- is_between --
-- Messages of one kind lie side by side.
AND key BETWEEN :first_key AND :last_key
