-- `model/row_keys.py` says which numbers each kind has.

-- get_state --
-- Returns the counts, the analyser version, the rebuild in progress, the newest dictionary and how
-- large the word index is, and its tail (`State`); NULL if the word index has lost its state.
SELECT messages + trashed_messages, content_bytes, stored_bytes + file_bytes, analyser_version,
    dictionary_due_bytes, rebuild_version, rebuild_upto, rebuild_until,
    (SELECT max(id) FROM dictionary WHERE organization_id = :organization_id AND is_retired = 0),
    /*sqlite:*/ max(messages, chunks),
    coalesce((SELECT logged FROM packed_state), max(messages, chunks)) /*postgres: (SELECT words FROM word_index WHERE organization_id = :organization_id),
    (SELECT tail_words FROM word_index WHERE organization_id = :organization_id) */
FROM counters JOIN upkeep ON upkeep.organization_id = :organization_id
WHERE counters.organization_id = :organization_id;

-- take_conversation --
-- Takes `count` numbers; returns the last of them.
UPDATE upkeep SET last_conversation = last_conversation + :count
WHERE organization_id = :organization_id
RETURNING last_conversation;

-- take_memory --
UPDATE upkeep SET last_memory = last_memory + :count
WHERE organization_id = :organization_id
RETURNING last_memory;

-- take_document --
UPDATE upkeep SET last_document = last_document + :count
WHERE organization_id = :organization_id
RETURNING last_document;

-- given_numbers --
-- Returns how many places were given to conversations, memories and documents.
SELECT last_conversation, last_memory, last_document FROM upkeep
WHERE organization_id = :organization_id;

-- newest_number --
-- Returns the highest number between two bounds that has left a trace; the plus makes SQLite look
-- it up.
SELECT max(newest) FROM
    (SELECT coalesce(max(number), :first) AS newest FROM conversation
     WHERE +organization_id = :organization_id AND number BETWEEN :first AND :last
     UNION ALL
     SELECT coalesce(max(last_key >> 24), :first) FROM vector_removal
     WHERE organization_id = :organization_id AND last_key >> 24 BETWEEN :first AND :last
     UNION ALL
     SELECT coalesce(max(record), :first) FROM trash
     WHERE organization_id = :organization_id AND record BETWEEN :first AND :last);

-- put_numbers --
UPDATE upkeep
SET last_conversation = :conversation, last_memory = :memory, last_document = :document
WHERE organization_id = :organization_id;
