-- Row ids are `word_row` of the keys of messages (`word_index.py`).

-- index_message --
INSERT INTO message_words (rowid, words, stops) VALUES (((?1 >> 12 & 4095) << 46) + (?1 >> 24 << 12) + (?1 & 4095), ?2, ?3);

-- unindex_message --
-- A contentless row is removed by the very words it was indexed with.
INSERT INTO message_words (message_words, rowid, words, stops)
VALUES ('delete', ((?1 >> 12 & 4095) << 46) + (?1 >> 24 << 12) + (?1 & 4095), ?2, ?3);

-- totals --
-- Returns FTS5's record of its rows and words: varints, the number of rows first, then the words of each
-- column.
SELECT block FROM message_words_data WHERE id = 1;

-- count_rows --
SELECT count(*) FROM message_words_docsize;

-- places_of_word --
-- Returns the row of every place of a word, as one text: a row of its own for each takes thrice the time.
SELECT group_concat(doc) FROM message_word_places WHERE term = :term;

-- places_of_prefix --
-- Returns the same of the words that begin with a character.
SELECT group_concat(doc) FROM message_word_places
WHERE term >= :term AND term < :term || char(0x10FFFF);

-- lengths --
-- Returns key, and as varints the number of words of each column, of the messages of a JSON list.
SELECT ((id >> 12 & 0x3FFFFFFFF) << 24) + (id >> 46 << 12) + (id & 4095), sz
FROM message_words_docsize
WHERE id IN
    (SELECT ((value >> 12 & 4095) << 46) + (value >> 24 << 12) + (value & 4095)
     FROM json_each(:keys));

-- short_lengths --
-- Returns two texts: keys of those messages of a JSON list that have fewer than 128 words in each column, and the
-- number of words of each column in hexadecimal, two digits for each. A row of its own for each takes twice the time.
SELECT
    group_concat(asked.value),
    group_concat(hex(size.sz), '')
FROM json_each(:keys) AS asked CROSS JOIN message_words_docsize AS size
WHERE size.id = ((asked.value >> 12 & 4095) << 46) + (asked.value >> 24 << 12) + (asked.value & 4095)
    AND length(size.sz) = 2;

-- size_of_row --
-- Returns the number of words of each column, as varints, of a row.
SELECT sz FROM message_words_docsize WHERE id = ?;

-- all_places --
-- Returns word, row, column and place of every word.
SELECT term, doc, col, offset FROM message_word_places;

-- create_next --
-- As in the schema.
CREATE VIRTUAL TABLE message_words_next USING fts5(
    words, stops, content = '', tokenize = "ascii tokenchars '_+#'"
);

-- merge_next --
INSERT INTO message_words_next (message_words_next, rank) VALUES ('automerge', 2);

-- drop_next --
DROP TABLE IF EXISTS message_words_next;

-- drop_present --
DROP TABLE IF EXISTS message_words;

-- rename_next --
ALTER TABLE message_words_next RENAME TO message_words;
