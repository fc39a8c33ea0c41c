-- Statements of one leg speak of `message_words`; the window leg puts its own table's name there.

-- index_message --
INSERT INTO message_words (rowid, words) VALUES (?, ?);

-- unindex_message --
-- A contentless row is removed by the very words it was indexed with.
INSERT INTO message_words (message_words, rowid, words) VALUES ('delete', ?, ?);

-- index_window --
INSERT INTO window_words (rowid, words) VALUES (?, ?);

-- unindex_window --
INSERT INTO window_words (window_words, rowid, words) VALUES ('delete', ?, ?);

-- statistics --
-- Returns FTS5's record of its rows and words: varints, the number of rows first.
SELECT block FROM message_words_data WHERE id = 1;

-- count_matches --
-- Returns how many rows match, under the conditions.
SELECT count(*) FROM message_words WHERE message_words MATCH :match /*conditions*/;

-- all_matches --
-- Returns every matching row id under the conditions, and minus what FTS5 scores it.
SELECT rowid, -bm25(message_words) FROM message_words
WHERE message_words MATCH :match /*conditions*/;

-- best_matches --
-- Returns the same of the rows that FTS5 ranks first.
SELECT rowid, -bm25(message_words) AS score FROM message_words
WHERE message_words MATCH :match /*conditions*/
ORDER BY score DESC, rowid
LIMIT :limit;

-- matches_among --
-- Returns what `all_matches` does, of the row ids of a JSON list. The plus keeps SQLite from asking
-- FTS5 for each of them anew; passing over a row costs a tenth of scoring it.
SELECT rowid, -bm25(message_words) FROM message_words
WHERE message_words MATCH :match AND +rowid IN (SELECT value FROM json_each(:keys))
    /*conditions*/;

-- lengths --
-- Returns key and characters of the messages of a JSON list that exist and meet the conditions.
SELECT key, characters FROM message
WHERE organization_id = :organization_id AND key IN (SELECT value FROM json_each(:keys))
    /*conditions*/;

-- find_conversation --
SELECT number FROM conversation WHERE organization_id = :organization_id AND id = :id;

-- is_in_conversation --
-- A condition on the row ids of messages or windows.
AND /*key*/ BETWEEN :first AND :last

-- is_in_conversations --
-- A condition on the row ids of messages or windows.
AND /*key*/ >> 24 IN
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
     WHERE organization_id = :organization_id AND key = message_words.rowid /*conditions*/)

-- holds_such_message --
-- A condition on the rows of the windows' word index: one of the window's messages will do.
AND EXISTS
    (SELECT 1 FROM message
     WHERE organization_id = :organization_id
         AND key BETWEEN
             (window_words.rowid >> 24 << 24) + (window_words.rowid & 0xFFFFFF) * :stride + 1
             AND (window_words.rowid >> 24 << 24)
                 + (window_words.rowid & 0xFFFFFF) * :stride + :length
         /*conditions*/)
