-- Blocks of a word have its number times 2^20 and their own number as key (`packed_words.py`).

-- begin --
-- Generation and epoch are random, so that none comes again after a transaction that failed; they always have 8 bytes.
INSERT INTO packed_state (id, generation, epoch)
VALUES (1, (random() & 0x3fffffffffffffff) + 0x4000000000000000, (random() & 0x3fffffffffffffff) + 0x4000000000000000);

-- get_state --
-- Returns generation, messages logged, the last word that was merged and messages when words were counted last.
SELECT generation, logged, folded, counted FROM packed_state;

-- numbers --
-- Returns term and number of all words that have a list.
SELECT term, number FROM packed_word;

-- log --
-- Appends to a row of the log.
INSERT INTO packed_log (number, messages, words) VALUES (?1, ?2, ?3)
ON CONFLICT (number) DO UPDATE
SET messages = CAST(messages || excluded.messages AS BLOB), words = CAST(words || excluded.words AS BLOB);

-- count_logged --
-- One row by its key: a change that could be of many would have FTS5 write what it has gathered, before the commit.
UPDATE packed_state SET logged = logged + ? WHERE id = 1;

-- get_epoch --
-- Returns the epoch and the messages logged, by which the rows that may still grow are known.
SELECT epoch, logged FROM packed_state;

-- read_log --
-- Returns number and columns of the rows from a number on.
SELECT number, messages, words FROM packed_log WHERE number >= ? ORDER BY number;

-- log_messages --
-- Returns number and messages of all rows.
SELECT number, messages FROM packed_log ORDER BY number;

-- log_row --
SELECT messages, words FROM packed_log WHERE number = ?;

-- put_log --
UPDATE packed_log SET messages = :messages, words = :words WHERE number = :number;

-- empty_log --
DELETE FROM packed_log;

-- note_folded --
UPDATE packed_state SET folded = ?;

-- forget_logged --
UPDATE packed_state SET logged = 0, folded = 0;

-- blocks_of_terms --
-- Returns term, number of the word and block, for the words of a JSON list that have a packed list.
SELECT packed_word.term, packed_word.number, packed_block.packed
FROM json_each(:terms) AS asked
CROSS JOIN packed_word ON packed_word.term = asked.value
CROSS JOIN packed_block
    ON packed_block.key BETWEEN packed_word.number << 20 AND packed_word.number << 20 | 1048575;

-- blocks_with_keys --
-- Returns key and block, of the words of a JSON list, that may have messages between two keys.
SELECT packed_block.key, packed_block.packed
FROM json_each(:terms) AS asked
CROSS JOIN packed_word ON packed_word.term = asked.value
CROSS JOIN packed_block
    ON packed_block.key BETWEEN packed_word.number << 20 AND packed_word.number << 20 | 1048575
WHERE packed_block.first_key <= :last_key AND packed_block.last_key >= :first_key;

-- last_block --
-- Returns key, number of postings and block of the last block of a word.
SELECT key, postings, packed FROM packed_block
WHERE key BETWEEN :number << 20 AND :number << 20 | 1048575
ORDER BY key DESC LIMIT 1;

-- put_block --
INSERT INTO packed_block (key, first_key, last_key, postings, packed)
VALUES (:key, :first_key, :last_key, :postings, :packed)
ON CONFLICT (key) DO UPDATE
SET first_key = excluded.first_key, last_key = excluded.last_key, postings = excluded.postings,
    packed = excluded.packed;

-- delete_block --
DELETE FROM packed_block WHERE key = ?;

-- has_blocks --
SELECT 1 FROM packed_block WHERE key BETWEEN :number << 20 AND :number << 20 | 1048575 LIMIT 1;

-- delete_word --
DELETE FROM packed_word WHERE number = :number;

-- is_packed --
SELECT 1 FROM packed_word WHERE term = ?;

-- unpacked --
-- Returns the words in so many messages that have no list, those of most messages first.
SELECT term FROM message_word_counts
WHERE doc >= :postings_min AND term NOT IN (SELECT term FROM packed_word)
ORDER BY doc DESC, term;

-- take_number --
-- Returns the next number; none is given beyond a bound.
UPDATE packed_state SET numbers = numbers + 1 WHERE numbers < ? RETURNING numbers;

-- add_word --
INSERT INTO packed_word (term, number) VALUES (?, ?);

-- renew_epoch --
UPDATE packed_state SET epoch = (random() & 0x3fffffffffffffff) + 0x4000000000000000;

-- renew_generation --
UPDATE packed_state SET generation = (random() & 0x3fffffffffffffff) + 0x4000000000000000;

-- note_counted --
UPDATE packed_state SET counted = ?;

-- stray_blocks --
-- Returns how many blocks belong to no word.
SELECT count(*) FROM packed_block WHERE key >> 20 NOT IN (SELECT number FROM packed_word);

-- drop_words --
DELETE FROM packed_word;

-- drop_blocks --
DELETE FROM packed_block;

-- drop_state --
DELETE FROM packed_state;
