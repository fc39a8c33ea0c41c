-- word_indexes --
-- Returns the names of the word indexes there are.
SELECT name FROM sqlite_schema WHERE name IN ('message_words', 'message_words_next');

-- samples --
-- Returns a row if SQLite keeps samples of indexed values.
SELECT 1 FROM sqlite_schema WHERE name = 'sqlite_stat4';

-- forget_samples --
DELETE FROM sqlite_stat4;

-- merge --
-- Merges some pages of the parts of a word index, of all of them in the end; `{index}` is its name.
INSERT INTO {index} ({index}, rank) VALUES ('merge', :pages);

-- write_anew --
VACUUM;

-- move_log --
-- Moves the log into the file and truncates it; returns 1 first if others keep a part of it in use.
PRAGMA wal_checkpoint(TRUNCATE);
