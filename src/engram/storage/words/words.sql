-- grow_windows --
-- Adds to the words of all windows, and to those of an index being built, if there is one. The revision
-- invalidates caches; returns it.
UPDATE upkeep
SET window_words = window_words + :words,
    rebuild_window_words = rebuild_window_words + :next_words,
    word_revision = word_revision + :revisions
WHERE organization_id = :organization_id
RETURNING word_revision;

-- begin_rebuild --
UPDATE upkeep
SET rebuild_id = :rebuild_id, rebuild_version = :version, rebuild_upto = 0,
    rebuild_until = :until, rebuild_window_words = 0
WHERE organization_id = :organization_id;

-- advance_rebuild --
UPDATE upkeep SET rebuild_upto = :upto, rebuild_until = :until
WHERE organization_id = :organization_id AND rebuild_id = :rebuild_id;

-- end_rebuild --
UPDATE upkeep
SET analyser_version = :version, window_words = rebuild_window_words,
    word_revision = word_revision + :revisions, rebuild_id = NULL,
    rebuild_version = NULL, rebuild_upto = NULL, rebuild_until = NULL, rebuild_window_words = NULL
WHERE organization_id = :organization_id;

-- forget_rebuild --
UPDATE upkeep
SET rebuild_id = NULL, rebuild_version = NULL, rebuild_upto = NULL, rebuild_until = NULL,
    rebuild_window_words = NULL
WHERE organization_id = :organization_id;

-- is_abandoned --
-- Returns a row if a rebuild was not continued in time, or by a clock that is ahead of all others.
SELECT 1 FROM upkeep WHERE organization_id = :organization_id 
    AND (rebuild_until <= :now OR rebuild_until > :until_max);

-- get_rebuild --
-- Returns the id and the last conversation of the rebuild under way.
SELECT rebuild_id, rebuild_upto FROM upkeep WHERE organization_id = :organization_id;

-- get_versions --
-- Returns the analyser versions of the word index and of the one being built.
SELECT analyser_version, rebuild_version FROM upkeep WHERE organization_id = :organization_id;

-- next_conversations --
-- Returns number, id, message_count of the conversations past `after` up to `upto`.
SELECT number, id, message_count FROM conversation
WHERE organization_id = :organization_id AND number > :after AND number <= :upto
ORDER BY number;

-- has_more --
-- Returns a row if there is a conversation past `after`.
SELECT 1 FROM conversation
WHERE organization_id = :organization_id AND number > :after
LIMIT 1;

-- add_counters --
INSERT INTO counters (organization_id) VALUES (:organization_id)
ON CONFLICT DO NOTHING;

-- add_vector_state --
INSERT INTO vector_state (organization_id) VALUES (:organization_id)
ON CONFLICT DO NOTHING;

-- add_upkeep --
-- A store with messages but without this row may have any analyser's words and any revision: version 0
-- lets them be rebuilt, and `now` is a revision that was never used.
INSERT INTO upkeep (organization_id, analyser_version, dictionary_due_bytes, word_revision)
SELECT :organization_id, CASE WHEN count(*) > 0 THEN 0 ELSE :version END, :due_bytes, :now
FROM (SELECT 1 FROM message WHERE organization_id = :organization_id LIMIT 1) AS found
WHERE true
ON CONFLICT DO NOTHING;
