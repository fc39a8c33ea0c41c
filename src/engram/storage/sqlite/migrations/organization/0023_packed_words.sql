-- Packed posting lists of frequent words, which FTS5 reads one by one.

CREATE VIRTUAL TABLE message_word_counts USING fts5vocab(message_words, row);

CREATE TABLE packed_word (
    term   TEXT    PRIMARY KEY,
    number INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE packed_block (
    key       INTEGER PRIMARY KEY,
    first_key INTEGER NOT NULL,
    last_key  INTEGER NOT NULL,
    postings  INTEGER NOT NULL,
    packed    BLOB    NOT NULL
) STRICT;

CREATE TABLE packed_log (
    number   INTEGER PRIMARY KEY,
    messages BLOB    NOT NULL,
    words    BLOB    NOT NULL
) STRICT;

CREATE TABLE packed_state (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL,
    epoch      INTEGER NOT NULL,
    numbers    INTEGER NOT NULL DEFAULT 0,
    logged     INTEGER NOT NULL DEFAULT 0,
    folded     INTEGER NOT NULL DEFAULT 0,
    counted    INTEGER NOT NULL DEFAULT 0
) STRICT;
