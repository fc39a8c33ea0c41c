-- Statements of one leg speak of `message_words`; the window leg puts its own table's name there.
-- Outside this file rows go by their keys; row ids are `word_row` of these (`keys.py`).

-- index_message --
INSERT INTO message_words (rowid, words)
VALUES (((?1 >> 12 & 4095) << 46) + (?1 >> 24 << 12) + (?1 & 4095), ?2);

-- unindex_message --
-- A contentless row is removed by the very words it was indexed with.
INSERT INTO message_words (message_words, rowid, words)
VALUES ('delete', ((?1 >> 12 & 4095) << 46) + (?1 >> 24 << 12) + (?1 & 4095), ?2);

-- index_window --
INSERT INTO window_words (rowid, words)
VALUES (((?1 >> 12 & 4095) << 46) + (?1 >> 24 << 12) + (?1 & 4095), ?2);

-- unindex_window --
INSERT INTO window_words (window_words, rowid, words)
VALUES ('delete', ((?1 >> 12 & 4095) << 46) + (?1 >> 24 << 12) + (?1 & 4095), ?2);

-- message_statistics --
-- Returns FTS5's record of its rows and words: varints, the number of rows first, then of words.
SELECT block FROM message_words_data WHERE id = 1;

-- window_statistics --
SELECT block FROM window_words_data WHERE id = 1;

-- places_of_word --
-- Returns the row of every place of a word, as one text: a row of its own for each takes thrice the time.
SELECT group_concat(doc) FROM message_word_places WHERE term = :term;

-- places_of_prefix --
-- Returns the same of the words that begin with a character.
SELECT group_concat(doc) FROM message_word_places
WHERE term >= :term AND term < :term || char(0x10FFFF);

-- message_lengths --
-- Returns row, number of words as a varint, and that this never changes, of a JSON list of rows.
SELECT id, sz, 1 FROM message_words_docsize WHERE id IN (SELECT value FROM json_each(:rows));

-- window_lengths --
-- Returns the same of windows; an open one still changes, but that of a memory never does.
SELECT id, sz, (id >> 44 & 3) = 1 OR coalesce(end_sequence - start_sequence = 4, 0)
FROM window_words_docsize LEFT JOIN chunk
    ON organization_id = :organization_id
    AND key = ((id >> 12 & 0x3FFFFFFFF) << 24) + (id >> 46 << 12) + (id & 4095)
WHERE id IN (SELECT value FROM json_each(:rows));

-- count_matches --
-- Returns how many rows match, under the conditions.
SELECT count(*) FROM message_words WHERE message_words MATCH :match /*conditions*/;

-- all_matches --
-- Returns the key of every matching row under the conditions, and minus what FTS5 scores it.
SELECT ((rowid >> 12 & 0x3FFFFFFFF) << 24) + (rowid >> 46 << 12) + (rowid & 4095), -bm25(message_words)
FROM message_words
WHERE message_words MATCH :match /*conditions*/;

-- best_matches --
-- Returns the same of the rows that FTS5 ranks first.
SELECT ((rowid >> 12 & 0x3FFFFFFFF) << 24) + (rowid >> 46 << 12) + (rowid & 4095) AS key,
    -bm25(message_words) AS score
FROM message_words
WHERE message_words MATCH :match /*conditions*/
ORDER BY score DESC, key
LIMIT :limit;

-- matches_among --
-- Returns what `all_matches` does, of the keys of a JSON list. The plus keeps SQLite from asking
-- FTS5 for each of them anew; passing over a row costs a tenth of scoring it.
SELECT ((rowid >> 12 & 0x3FFFFFFFF) << 24) + (rowid >> 46 << 12) + (rowid & 4095), -bm25(message_words)
FROM message_words
WHERE message_words MATCH :match AND +rowid IN
    (SELECT ((value >> 12 & 4095) << 46) + (value >> 24 << 12) + (value & 4095)
     FROM json_each(:keys))
    /*conditions*/;

-- message_facts --
-- Returns key, characters, moment and whether nobody said it, of the messages of a JSON list.
SELECT key, characters, coalesce(occurred_at, created_at), role = 'document' FROM message
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys));

-- find_conversation --
-- Returns number and message_count.
SELECT number, message_count FROM conversation
WHERE organization_id = :organization_id AND id = :id AND number < 4294967296;

-- message_number --
-- The conversation of a message.
key >> 24

-- row_number --
-- The conversation of a row of a word index.
(rowid >> 12 & 0x3FFFFFFFF)

-- is_in_conversation --
AND key >> 24 = :number

-- is_conversation --
AND number = :number

-- is_row_in_conversation --
-- FTS5 skips what lies outside the range; inside it are other conversations if this one is long.
AND rowid BETWEEN :first AND :last AND (rowid >> 12 & 0x3FFFFFFFF) = :number

-- is_in_conversations --
AND /*number*/ IN
    (SELECT number FROM conversation
     WHERE organization_id = :organization_id /*conditions*/)

-- has_agent --
AND agent_id = :agent_id

-- has_project --
AND project = :project

-- has_tags --
AND number IN
    (SELECT conversation FROM conversation_tag
     WHERE organization_id = :organization_id AND tag IN (SELECT value FROM json_each(:tags))
     GROUP BY conversation HAVING count(*) = json_array_length(:tags))

-- has_role --
AND role = :role

-- is_said_since --
AND coalesce(occurred_at, created_at) >= :since

-- is_said_before --
AND coalesce(occurred_at, created_at) < :before

-- is_such_message --
-- A condition on the rows of the messages' word index.
AND EXISTS
    (SELECT 1 FROM message
     WHERE organization_id = :organization_id
         AND key = ((message_words.rowid >> 12 & 0x3FFFFFFFF) << 24)
             + (message_words.rowid >> 46 << 12) + (message_words.rowid & 4095)
         /*conditions*/)

-- holds_such_message --
-- A condition on the rows of the windows' word index: one of the window's messages will do.
AND EXISTS
    (SELECT 1 FROM message
     WHERE organization_id = :organization_id
         AND key BETWEEN
             ((window_words.rowid >> 12 & 0x3FFFFFFFF) << 24)
                 + ((window_words.rowid >> 46 << 12) + (window_words.rowid & 4095)) * :stride + 1
             AND ((window_words.rowid >> 12 & 0x3FFFFFFFF) << 24)
                 + ((window_words.rowid >> 46 << 12) + (window_words.rowid & 4095)) * :stride
                 + :length
         /*conditions*/)
