-- Row ids are `word_row` of the keys of messages and windows (`keys.py`).

-- index_next_message --
INSERT INTO message_words_next (rowid, words)
VALUES (((?1 >> 12 & 4095) << 46) + (?1 >> 24 << 12) + (?1 & 4095), ?2);

-- index_next_window --
INSERT INTO window_words_next (rowid, words)
VALUES (((?1 >> 12 & 4095) << 46) + (?1 >> 24 << 12) + (?1 & 4095), ?2);

-- unindex_next_message --
INSERT INTO message_words_next (message_words_next, rowid, words)
VALUES ('delete', ((?1 >> 12 & 4095) << 46) + (?1 >> 24 << 12) + (?1 & 4095), ?2);

-- unindex_next_window --
INSERT INTO window_words_next (window_words_next, rowid, words)
VALUES ('delete', ((?1 >> 12 & 4095) << 46) + (?1 >> 24 << 12) + (?1 & 4095), ?2);

-- begin_rebuild --
UPDATE upkeep
SET rebuild_id = :rebuild_id, rebuild_version = :version, rebuild_upto = 0,
    rebuild_until = :until
WHERE organization_id = :organization_id;

-- advance_rebuild --
UPDATE upkeep SET rebuild_upto = :upto, rebuild_until = :until
WHERE organization_id = :organization_id AND rebuild_id = :rebuild_id;

-- end_rebuild --
UPDATE upkeep
SET analyser_version = :version, rebuild_id = NULL, rebuild_version = NULL, rebuild_upto = NULL,
    rebuild_until = NULL
WHERE organization_id = :organization_id;

-- forget_rebuild --
UPDATE upkeep
SET rebuild_id = NULL, rebuild_version = NULL, rebuild_upto = NULL, rebuild_until = NULL
WHERE organization_id = :organization_id;

-- is_abandoned --
-- Returns a row if a rebuild was not continued in time.
SELECT 1 FROM upkeep WHERE organization_id = :organization_id AND rebuild_until <= :now;

-- get_rebuild --
-- Returns the id and the last conversation of the rebuild under way.
SELECT rebuild_id, rebuild_upto FROM upkeep WHERE organization_id = :organization_id;

-- get_versions --
-- Returns the analysers of the word indexes and of those being built.
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

-- delete_stray_chunks --
DELETE FROM chunk
WHERE organization_id = :organization_id AND key >> 24 NOT IN
    (SELECT number FROM conversation WHERE organization_id = :organization_id);

-- add_counters --
INSERT INTO counters (organization_id) VALUES (:organization_id)
ON CONFLICT (organization_id) DO NOTHING;

-- add_vector_state --
INSERT INTO vector_state (organization_id) VALUES (:organization_id)
ON CONFLICT (organization_id) DO NOTHING;

-- add_upkeep --
INSERT INTO upkeep (organization_id, analyser_version, dictionary_due_bytes)
VALUES (:organization_id, :version, :due_bytes)
ON CONFLICT (organization_id) DO NOTHING;

-- create_next_message_words --
CREATE VIRTUAL TABLE message_words_next USING fts5(
    words, content = '', tokenize = "ascii tokenchars '_+#'"
);

-- create_next_window_words --
CREATE VIRTUAL TABLE window_words_next USING fts5(
    words, content = '', tokenize = "ascii tokenchars '_+#'"
);

-- merge_next_message_words --
-- Sets how many parts are merged, as in the schema.
INSERT INTO message_words_next (message_words_next, rank) VALUES ('automerge', 2);

-- merge_next_window_words --
INSERT INTO window_words_next (window_words_next, rank) VALUES ('automerge', 2);

-- drop_next_message_words --
DROP TABLE IF EXISTS message_words_next;

-- drop_next_window_words --
DROP TABLE IF EXISTS window_words_next;

-- drop_message_words --
DROP TABLE IF EXISTS message_words;

-- drop_window_words --
DROP TABLE IF EXISTS window_words;

-- rename_message_words --
ALTER TABLE message_words_next RENAME TO message_words;

-- rename_window_words --
ALTER TABLE window_words_next RENAME TO window_words;
