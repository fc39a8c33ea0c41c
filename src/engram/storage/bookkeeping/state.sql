-- get_state --
-- Returns what an append has to know: counts, the words' analyser, a rebuild, the dictionary.
SELECT messages, content_bytes, stored_bytes + file_bytes, analyser_version, dictionary_due_bytes,
    rebuild_version, rebuild_upto, rebuild_until,
    (SELECT max(id) FROM dictionary WHERE organization_id = :organization_id)
FROM counters JOIN upkeep ON upkeep.organization_id = :organization_id
WHERE counters.organization_id = :organization_id;
