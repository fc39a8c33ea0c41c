-- What windows hold follows from their messages, of which the word index keeps stop words apart. It is
-- built anew when the file is opened: the words are of another analyser.
DROP TABLE IF EXISTS window_words_next;
DROP TABLE IF EXISTS message_words_next;
DROP TABLE window_word_places;
DROP TABLE window_words;
DROP TABLE message_words;
DROP TABLE chunk;

CREATE VIRTUAL TABLE message_words USING fts5(
    words, stops, content = '', tokenize = "ascii tokenchars '_+#'"
);
INSERT INTO message_words (message_words, rank) VALUES ('automerge', 2);

ALTER TABLE upkeep ADD COLUMN window_words INTEGER NOT NULL DEFAULT 0;
ALTER TABLE upkeep ADD COLUMN rebuild_window_words INTEGER;
ALTER TABLE upkeep ADD COLUMN word_revision INTEGER NOT NULL DEFAULT 0;
UPDATE upkeep
SET rebuild_id = NULL, rebuild_version = NULL, rebuild_upto = NULL, rebuild_until = NULL;
