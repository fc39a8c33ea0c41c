-- One organisation's file: its conversations and memories, and all that is derived from them.
-- Times are microseconds since 1970, UTC. Row ids named `key` are made by
-- `engram.model.row_keys`: a conversation's number above, a position in it below, so that
-- the key of a message is also the proof that its sequence is unique.

-- Whose file this is. One row, written when the file is created; every transaction reads it first,
-- so that a process which still holds a deleted organisation's file can neither read nor write it.

CREATE TABLE meta (
    organization_id INTEGER PRIMARY KEY,
    public_id       TEXT    NOT NULL,
    is_deleted      INTEGER NOT NULL DEFAULT 0 CHECK (is_deleted IN (0, 1)),
    file_id         BLOB,                               -- random; NULL until it has a mark
    commits         INTEGER NOT NULL DEFAULT 0,         -- that changed anything
    appended        INTEGER NOT NULL DEFAULT 0,         -- messages, deleted ones included
    chain           BLOB    NOT NULL DEFAULT x'',       -- SHA-256 over the one before and the messages since
    moved_to        TEXT                                -- the address of the database that replaces it
) STRICT;

-- Whatever holds messages. Conversations have numbers below 2^32, the texts of memories from there
-- on, documents from twice as much: `model/row_keys.py`. All but conversations are called records.
CREATE TABLE conversation (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: keys are made of it
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL UNIQUE,
    title           TEXT,
    agent_id        TEXT,
    project         TEXT    NOT NULL,
    metadata        TEXT    NOT NULL,                   -- JSON
    is_default      INTEGER NOT NULL DEFAULT 0 CHECK (is_default IN (0, 1)),
    message_count   INTEGER NOT NULL DEFAULT 0,
    content_bytes   INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    row_hash        BLOB                                -- NULL: stored by an older version; or a record
) STRICT;

CREATE UNIQUE INDEX conversation_default ON conversation (organization_id) WHERE is_default = 1;
CREATE INDEX conversation_created ON conversation (organization_id, created_at)
    WHERE number < 4294967296;
CREATE INDEX conversation_updated ON conversation (organization_id, updated_at)
    WHERE number < 4294967296;
CREATE INDEX conversation_length ON conversation (organization_id, message_count)
    WHERE number < 4294967296;
CREATE INDEX conversation_project ON conversation (organization_id, project, updated_at);
CREATE INDEX conversation_agent ON conversation (organization_id, agent_id, updated_at)
    WHERE agent_id IS NOT NULL;

CREATE TABLE conversation_tag (
    organization_id INTEGER NOT NULL,
    conversation    INTEGER NOT NULL REFERENCES conversation (number) ON DELETE CASCADE,
    position        INTEGER NOT NULL,                   -- tags come back in the order given
    tag             TEXT    NOT NULL,
    PRIMARY KEY (conversation, position)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX conversation_tag_found
    ON conversation_tag (organization_id, tag, conversation);

-- The content comes last: the small columns are then read without its overflow pages.
CREATE TABLE "message" (
    key              INTEGER PRIMARY KEY,               -- conversation number and sequence
    organization_id  INTEGER NOT NULL,
    role             TEXT    NOT NULL
        CHECK (role IN ('user', 'assistant', 'system', 'tool', 'document')),
    characters       INTEGER NOT NULL,
    occurred_at      INTEGER,
    created_at       INTEGER NOT NULL,
    name             TEXT,
    tool_call_id     TEXT,
    tool_name        TEXT,
    content_encoding TEXT,
    sha256           BLOB    NOT NULL CHECK (length(sha256) = 32),
    metadata         TEXT,                              -- JSON
    content          ANY     NOT NULL,
    row_hash         BLOB                               -- NULL: stored by an older version
) STRICT;

CREATE INDEX message_legacy ON message (key)
    WHERE content_encoding IS NULL OR content_encoding = 'gzip+base64';

-- The words of messages: those that tell something, and stop words. Windows are found by the former.
CREATE VIRTUAL TABLE message_words USING fts5(
    words, stops, content = '', tokenize = "ascii tokenchars '_+#'"
);

-- Two of its parts that hold the same words are merged: less room, and little more work, than with
-- the four that FTS5 waits for.
INSERT INTO message_words (message_words, rank) VALUES ('automerge', 2);

-- What the word index holds, word by word.
CREATE VIRTUAL TABLE message_word_places USING fts5vocab(message_words, instance);
CREATE VIRTUAL TABLE message_word_counts USING fts5vocab(message_words, row);

-- Packed posting lists of frequent words: copies of what the word index says, read much faster. A word may have
-- none. The messages that were added since are in `packed_log`.
CREATE TABLE packed_word (
    term   TEXT    PRIMARY KEY,
    number INTEGER NOT NULL                             -- never reused, unless all lists are dropped
) STRICT, WITHOUT ROWID;

CREATE TABLE packed_block (
    key       INTEGER PRIMARY KEY,                      -- number of the word, and of the block
    first_key INTEGER NOT NULL,                         -- the lowest key of a message
    last_key  INTEGER NOT NULL,                         -- the highest
    postings  INTEGER NOT NULL,
    packed    BLOB    NOT NULL                          -- `storage/postings/blocks.py`
) STRICT;

-- The numbers of those words of a message that had a list when it was added.
CREATE TABLE packed_log (
    number   INTEGER PRIMARY KEY,
    messages BLOB    NOT NULL,                          -- key and number of words of each
    words    BLOB    NOT NULL                           -- two bytes each, repeats included
) STRICT;

-- One row once lists are kept, and none before.
CREATE TABLE packed_state (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    generation INTEGER NOT NULL,                        -- random; changes when words are added
    epoch      INTEGER NOT NULL,                        -- random; changes when the log does more than grow
    numbers    INTEGER NOT NULL DEFAULT 0,              -- given to words so far
    logged     INTEGER NOT NULL DEFAULT 0,              -- messages added to the log since it was merged
    folded     INTEGER NOT NULL DEFAULT 0,              -- the last word of a merge that is not finished
    counted    INTEGER NOT NULL DEFAULT 0               -- messages when frequent words were last looked for
) STRICT;

CREATE TABLE counters (
    organization_id INTEGER PRIMARY KEY,
    conversations   INTEGER NOT NULL DEFAULT 0,
    messages        INTEGER NOT NULL DEFAULT 0,
    content_bytes   INTEGER NOT NULL DEFAULT 0,
    chunks          INTEGER NOT NULL DEFAULT 0,         -- windows of messages
    vectors         INTEGER NOT NULL DEFAULT 0,
    pending         INTEGER NOT NULL DEFAULT 0,
    memories        INTEGER NOT NULL DEFAULT 0,         -- those that are searched
    documents       INTEGER NOT NULL DEFAULT 0,
    stored_bytes    INTEGER NOT NULL DEFAULT 0,         -- what the quota counts: `stored_size.sql`
    file_bytes      INTEGER NOT NULL DEFAULT 0,         -- of files in the data directory; these too
    trashed_messages INTEGER NOT NULL DEFAULT 0         -- which the quota counts as well
) STRICT;

-- What upkeep has to know: one row.
CREATE TABLE upkeep (
    organization_id      INTEGER PRIMARY KEY,
    analyser_version     INTEGER NOT NULL,              -- of the words in the word index
    dictionary_due_bytes INTEGER NOT NULL,              -- train when so much text is stored
    rebuild_id           TEXT,                          -- while a new word index is built
    rebuild_version      INTEGER,                       -- the analyser of the new one
    rebuild_upto         INTEGER,                       -- the last conversation it holds
    rebuild_until        INTEGER,                       -- abandoned if not continued by then
    last_conversation    INTEGER NOT NULL DEFAULT 0,    -- how many numbers were given to each kind
    last_memory          INTEGER NOT NULL DEFAULT 0,
    last_document        INTEGER NOT NULL DEFAULT 0,
    window_words         INTEGER NOT NULL DEFAULT 0,    -- of all windows together, without stop words
    rebuild_window_words INTEGER,                       -- the same, of what the new index holds
    word_revision        INTEGER NOT NULL DEFAULT 0,    -- grows with every change of the word index
    scrub_table          TEXT,                          -- that the scrubber is reading; NULL: none
    scrub_key            TEXT,                          -- of the last row it has read, a JSON list
    scrub_began_at       INTEGER,
    scrub_finished_at    INTEGER,                       -- the last time all was read
    scrub_rows           INTEGER NOT NULL DEFAULT 0,    -- read since it began, or by the last one
    scrub_faults         INTEGER NOT NULL DEFAULT 0,    -- found since it began
    scrub_faults_last    INTEGER NOT NULL DEFAULT 0,    -- found by the last one that finished
    scrub_found          TEXT,                          -- the first of them, a JSON list
    scrub_owner          TEXT,                          -- the lease of the scrubber
    scrub_until          INTEGER
) STRICT;

CREATE TABLE dictionary (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,  -- as in the encoding `zstd:<id>`
    organization_id INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    trained_bytes   INTEGER NOT NULL,
    content         BLOB    NOT NULL,                   -- itself compressed
    is_retired      INTEGER NOT NULL DEFAULT 0 CHECK (is_retired IN (0, 1)) -- it goes with what it quotes
) STRICT;

CREATE TABLE idempotency (
    organization_id INTEGER NOT NULL,
    key             TEXT    NOT NULL,
    conversation    INTEGER NOT NULL REFERENCES conversation (number) ON DELETE CASCADE,
    first_sequence  INTEGER NOT NULL,
    last_sequence   INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    request_sha256  BLOB,                               -- NULL: stored by an older version
    PRIMARY KEY (organization_id, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_age ON idempotency (organization_id, created_at);
CREATE INDEX idempotency_conversation ON idempotency (conversation);

-- Which message of a source each captured message is, so that none is stored twice.
CREATE TABLE captured_message (
    organization_id INTEGER NOT NULL,
    conversation    INTEGER NOT NULL REFERENCES conversation (number) ON DELETE CASCADE,
    identity        TEXT    NOT NULL,                   -- derived from the source's own id
    sequence        INTEGER NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (conversation, identity)
) STRICT, WITHOUT ROWID;

-- Conversations that were deleted; they are neither captured nor imported again.
CREATE TABLE forgotten_session (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,                   -- of the conversation
    forgotten_at    INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;

-- Conversations that are removed in steps: nobody finds, lists or reads them any more.
CREATE TABLE leaving (
    conversation    INTEGER PRIMARY KEY REFERENCES conversation (number) ON DELETE CASCADE,
    organization_id INTEGER NOT NULL,
    erasure         TEXT                                -- that removes it; NULL: a deletion
) STRICT;

-- Erasures and their receipts. Nothing says any more what was erased once it is gone.
CREATE TABLE erasure (
    id                TEXT    PRIMARY KEY,
    organization_id   INTEGER NOT NULL,
    scope             TEXT    NOT NULL CHECK (scope IN ('conversation', 'project', 'subject')),
    value             TEXT,                             -- NULL: it is gone from every table
    state             TEXT    NOT NULL CHECK (state IN
        ('hiding', 'removing', 'rewriting', 'finished')),
    actor             TEXT    NOT NULL,
    requested_at      INTEGER NOT NULL,
    finished_at       INTEGER,
    last_conversation INTEGER NOT NULL,                 -- what is stored later stays
    last_memory       INTEGER NOT NULL,
    removed           TEXT    NOT NULL,                 -- JSON: how many of each kind
    files             TEXT    NOT NULL,                 -- JSON: names of files written anew
    row_hash          BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- Ids that an erasure has removed, until it has looked for them beside the database.
CREATE TABLE erased (
    erasure         TEXT    NOT NULL REFERENCES erasure (id) ON DELETE CASCADE,
    id              TEXT    NOT NULL,
    organization_id INTEGER NOT NULL,
    PRIMARY KEY (erasure, id)
) STRICT, WITHOUT ROWID;

-- Actors, actions and subjects of the audit: every one is named in many rows.
CREATE TABLE audit_name (
    number          INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL,
    name            TEXT    NOT NULL UNIQUE
) STRICT;

CREATE TABLE audit (
    at              INTEGER PRIMARY KEY,                -- one microsecond later when taken
    organization_id INTEGER NOT NULL,
    actor           INTEGER NOT NULL REFERENCES audit_name (number),
    action          INTEGER NOT NULL REFERENCES audit_name (number),
    subject         INTEGER REFERENCES audit_name (number),
    details         TEXT    NOT NULL                    -- JSON
) STRICT;

-- What was shown to agents without their asking; the newest rows stay.
CREATE TABLE delivery (
    at              INTEGER PRIMARY KEY,                -- one microsecond later when taken
    organization_id INTEGER NOT NULL,
    client          TEXT    NOT NULL,
    session         TEXT    NOT NULL,
    event           TEXT    NOT NULL,
    query           TEXT,                               -- its digest; NULL at the start of a session
    shown           TEXT    NOT NULL,                   -- JSON list of ids
    bytes           INTEGER NOT NULL,
    tokens          INTEGER NOT NULL
) STRICT;

CREATE TABLE job (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL UNIQUE,
    kind            TEXT    NOT NULL,
    subject         TEXT    NOT NULL,
    attempts        INTEGER NOT NULL DEFAULT 0,
    available_at    INTEGER NOT NULL,
    lease_owner     TEXT,
    lease_until     INTEGER,
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

CREATE UNIQUE INDEX job_waiting ON job (organization_id, kind, subject)
    WHERE lease_owner IS NULL;

-- Whose vectors these are. One embedder at most has a role; `next` is being built to become `deep`,
-- and `old` ones are being removed.
CREATE TABLE embedder (
    number          INTEGER PRIMARY KEY AUTOINCREMENT,
    organization_id INTEGER NOT NULL,
    role            TEXT    NOT NULL CHECK (role IN ('instant', 'deep', 'next', 'old')),
    identity        TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX embedder_role ON embedder (organization_id, role) WHERE role <> 'old';

-- Stored with their messages, and removed when these get deep vectors.
CREATE TABLE instant_vector (
    seq             INTEGER PRIMARY KEY,                -- of all changes of vectors, ascending
    organization_id INTEGER NOT NULL,
    embedder        INTEGER NOT NULL REFERENCES embedder (number),
    key             INTEGER NOT NULL,                   -- of the message
    start_character INTEGER NOT NULL,                   -- of the passage
    end_character   INTEGER NOT NULL,
    content         BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX instant_vector_owner ON instant_vector (key, start_character);

CREATE TABLE vector (
    seq             INTEGER PRIMARY KEY,                -- as of instant vectors
    organization_id INTEGER NOT NULL,
    embedder        INTEGER NOT NULL REFERENCES embedder (number),
    key             INTEGER NOT NULL,
    start_character INTEGER NOT NULL,
    end_character   INTEGER NOT NULL,
    content         BLOB    NOT NULL,
    tokens          BLOB                                -- of a message; NULL: it has none
) STRICT;

CREATE UNIQUE INDEX vector_owner ON vector (key, embedder, start_character, end_character);

-- Conversations whose vectors are gone, for processes that still hold them in memory.
CREATE TABLE vector_removal (
    seq             INTEGER PRIMARY KEY,                -- as of vectors
    organization_id INTEGER NOT NULL,
    first_key       INTEGER NOT NULL,
    last_key        INTEGER NOT NULL
) STRICT;

-- When there is background work next; the control file lists the same.
CREATE TABLE due (
    organization_id INTEGER NOT NULL,
    kind            TEXT    NOT NULL,
    due_at          INTEGER NOT NULL,
    PRIMARY KEY (organization_id, kind)
) STRICT, WITHOUT ROWID;

-- Messages that wait for deep vectors.
CREATE TABLE unembedded (
    number          INTEGER PRIMARY KEY,
    organization_id INTEGER NOT NULL,
    key             INTEGER NOT NULL UNIQUE,
    attempts        INTEGER NOT NULL DEFAULT 0,
    available_at    INTEGER NOT NULL DEFAULT 0,
    lease_owner     TEXT,
    lease_until     INTEGER,
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) STRICT;

CREATE TABLE vector_state (
    organization_id INTEGER PRIMARY KEY,
    seq             INTEGER NOT NULL DEFAULT 0,         -- the last that was given
    forgotten       INTEGER NOT NULL DEFAULT 0          -- who has read no further reads all again
) STRICT;

-- Stretches of work that memories belong to.
CREATE TABLE episode (
    id              TEXT    PRIMARY KEY,
    organization_id INTEGER NOT NULL,
    project         TEXT    NOT NULL,
    description     TEXT    NOT NULL,
    started_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    summary         TEXT,
    row_hash        BLOB                                -- NULL: stored by an older version
) STRICT, WITHOUT ROWID;

CREATE INDEX episode_project ON episode (organization_id, project, started_at);

-- The fields of memories as they are now. The present text is the only message of their record.
CREATE TABLE memory (
    number             INTEGER PRIMARY KEY AUTOINCREMENT,  -- in the order of storing
    organization_id    INTEGER NOT NULL,
    id                 TEXT    NOT NULL UNIQUE,
    record             INTEGER UNIQUE REFERENCES conversation (number), -- NULL: not searched
    project            TEXT    NOT NULL,
    memory_type        TEXT    NOT NULL CHECK (memory_type IN
        ('decision', 'pattern', 'error', 'context', 'architecture', 'preference')),
    category           TEXT    NOT NULL CHECK (category IN
        ('general', 'project', 'user_pref', 'technical', 'feedback')),
    source             TEXT    NOT NULL,
    importance         INTEGER NOT NULL CHECK (importance BETWEEN 0 AND 4),
    tags               TEXT    NOT NULL,                   -- a JSON list
    immutable          INTEGER NOT NULL CHECK (immutable IN (0, 1)),
    episode_id         TEXT    REFERENCES episode (id) ON DELETE SET NULL,
    pattern_confidence REAL    CHECK (pattern_confidence BETWEEN 0 AND 1),
    valid_from         INTEGER,
    valid_to           INTEGER,
    expires_at         INTEGER,
    storage_mode       TEXT    NOT NULL CHECK (storage_mode IN ('focused', 'document')),
    document_id        TEXT,
    sha256             BLOB    NOT NULL CHECK (length(sha256) = 32),
    version            INTEGER NOT NULL DEFAULT 1,
    created_at         INTEGER NOT NULL,
    updated_at         INTEGER NOT NULL,
    reason             TEXT,
    summary            TEXT,
    row_hash           BLOB                             -- NULL: stored by an older version
) STRICT;

CREATE INDEX memory_project ON memory (organization_id, project, number);
CREATE INDEX memory_content ON memory (organization_id, sha256) WHERE record IS NOT NULL;
CREATE INDEX memory_episode ON memory (episode_id) WHERE episode_id IS NOT NULL;
CREATE INDEX memory_timed ON memory (organization_id, record, valid_from, valid_to, expires_at)
    WHERE record IS NOT NULL
        AND (valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires_at IS NOT NULL);
CREATE INDEX memory_important ON memory (organization_id, importance, number)
    WHERE record IS NOT NULL AND importance NOT IN (2, 3, 4);
CREATE INDEX memory_typed ON memory (organization_id, memory_type, number)
    WHERE record IS NOT NULL AND memory_type <> 'context';
CREATE INDEX memory_categorized ON memory (organization_id, category, number)
    WHERE record IS NOT NULL AND category <> 'general';

-- What memories were before. Each text is kept once: without one, a version has that of the next,
-- and the last one that of the record. A memory that is not searched has its text in the last one.
CREATE TABLE memory_version (
    memory           INTEGER NOT NULL REFERENCES memory (number) ON DELETE CASCADE,
    version          INTEGER NOT NULL,
    organization_id  INTEGER NOT NULL,
    change           TEXT    NOT NULL CHECK (change IN ('update', 'invalidate', 'merge')),
    actor            TEXT    NOT NULL,
    recorded_at      INTEGER NOT NULL,
    ended_at         INTEGER NOT NULL,
    fields           TEXT    NOT NULL,                     -- JSON
    sha256           BLOB    NOT NULL CHECK (length(sha256) = 32),
    content_bytes    INTEGER NOT NULL DEFAULT 0,
    content_encoding TEXT,
    content          ANY,
    row_hash         BLOB,                              -- NULL: stored by an older version
    PRIMARY KEY (memory, version),
    CHECK ((content IS NULL) = (content_encoding IS NULL))
) STRICT, WITHOUT ROWID;

-- The id of a relation is derived from what it relates.
CREATE TABLE relation (
    source          INTEGER NOT NULL REFERENCES memory (number) ON DELETE CASCADE,
    target          INTEGER NOT NULL REFERENCES memory (number) ON DELETE CASCADE,
    relation_type   TEXT    NOT NULL CHECK (relation_type IN
        ('caused_by', 'relates_to', 'depends_on', 'supersedes', 'used_in', 'resolved_by',
         'contradicts', 'supports', 'derived_from', 'part_of', 'follows')),
    organization_id INTEGER NOT NULL,
    strength        REAL    NOT NULL CHECK (strength BETWEEN 0 AND 1),
    created_at      INTEGER NOT NULL,
    row_hash        BLOB,                               -- NULL: stored by an older version
    PRIMARY KEY (source, target, relation_type),
    CHECK (source <> target)
) STRICT, WITHOUT ROWID;

CREATE INDEX relation_target ON relation (target);

CREATE TABLE feedback (
    memory          INTEGER NOT NULL REFERENCES memory (number) ON DELETE CASCADE,
    number          INTEGER NOT NULL,                   -- 1, 2, 3 … of that memory
    organization_id INTEGER NOT NULL,
    helpful         INTEGER NOT NULL CHECK (helpful IN (0, 1)),
    event_id        TEXT,
    failure_class   TEXT,
    actor           TEXT    NOT NULL,
    created_at      INTEGER NOT NULL,
    row_hash        BLOB,                               -- NULL: stored by an older version
    PRIMARY KEY (memory, number)
) STRICT, WITHOUT ROWID;

-- What is left of purged memories.
CREATE TABLE tombstone (
    id              TEXT    PRIMARY KEY,
    organization_id INTEGER NOT NULL,
    sha256          BLOB    NOT NULL CHECK (length(sha256) = 32),
    removed_at      INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    row_hash        BLOB                                -- NULL: stored by an older version
) STRICT, WITHOUT ROWID;

-- Bodies that memories own, from the first part of their upload on. What is said of the upload alone
-- is empty once it is finished.
CREATE TABLE document (
    number             INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: keys are made of it
    organization_id    INTEGER NOT NULL,
    id                 TEXT    NOT NULL UNIQUE,
    memory             INTEGER,                            -- its number; NULL: it is uploaded
    state              TEXT    NOT NULL CHECK (state IN
        ('uploading', 'indexing', 'indexed', 'unreadable', 'forgotten')),
    waits_since        INTEGER,                            -- for its next part or step; NULL: for none
    name               TEXT,
    media_type         TEXT    NOT NULL,
    tier               INTEGER CHECK (tier IN (0, 1, 2)),
    size_bytes         INTEGER NOT NULL DEFAULT 0,         -- of the body, as far as it is here
    sha256             BLOB    CHECK (length(sha256) = 32),-- of the whole body
    is_converted       INTEGER NOT NULL DEFAULT 0 CHECK (is_converted IN (0, 1)),
    text_bytes         INTEGER,                            -- NULL: it is still to be converted
    text_bytes_indexed INTEGER NOT NULL DEFAULT 0,
    created_at         INTEGER NOT NULL,
    parts              INTEGER NOT NULL DEFAULT 0,         -- of the upload, so far
    part_sha256        BLOB,                               -- of the last one
    announced_bytes    INTEGER,
    lease_owner        TEXT,
    lease_until        INTEGER,
    problem            TEXT,
    options            TEXT,                               -- JSON: what the memory shall be
    chunker            TEXT,                               -- JSON: where the last chunk ended
    content_encoding   TEXT,
    content            ANY,                                -- of the memory; NULL: it is the body
    attempts           INTEGER NOT NULL DEFAULT 0,         -- since its last step succeeded
    available_at       INTEGER NOT NULL DEFAULT 0,
    row_hash           BLOB,                            -- NULL: stored by an older version; or an upload
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL)),
    CHECK ((content IS NULL) = (content_encoding IS NULL))
) STRICT;

CREATE INDEX document_waiting ON document (organization_id, state, waits_since)
    WHERE waits_since IS NOT NULL;
CREATE INDEX document_content ON document (organization_id, sha256) WHERE sha256 IS NOT NULL;

-- All of one size but for the last of a body or text: a byte's place tells its piece.
CREATE TABLE document_piece (
    key              INTEGER PRIMARY KEY,               -- document number, body or text, and place
    organization_id  INTEGER NOT NULL,
    size_bytes       INTEGER NOT NULL,
    content_encoding TEXT    NOT NULL,
    sha256           BLOB    NOT NULL CHECK (length(sha256) = 32),
    content          BLOB    NOT NULL
) STRICT;

-- Conversations and memories that were deleted and can be restored until they expire. Their rows are in
-- `trash_part`, and in no other table but for the pieces of documents, which stay where they are.
CREATE TABLE trash (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,                   -- of the conversation or memory
    kind            TEXT    NOT NULL CHECK (kind IN ('conversation', 'memory')),
    number          INTEGER NOT NULL,                   -- that its row had and will have again
    record          INTEGER,                            -- number of what held its messages
    document        INTEGER,                            -- number of the document of a memory
    project         TEXT    NOT NULL,
    source          TEXT,                               -- of a memory; the agent of a conversation
    title           TEXT    NOT NULL,                   -- of the conversation, or how the text begins
    sha256          BLOB    CHECK (length(sha256) = 32),-- of a memory's text
    messages        INTEGER NOT NULL,                   -- as the quota counts them
    stored_bytes    INTEGER NOT NULL,                   -- as the quota counts them
    trashed_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX trash_expiry ON trash (organization_id, expires_at);
CREATE INDEX trash_order ON trash (organization_id, trashed_at);

CREATE TABLE trash_part (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,                   -- of the trash row
    position        INTEGER NOT NULL,                   -- 0, 1, 2 …
    sha256          BLOB    NOT NULL CHECK (length(sha256) = 32),
    content         BLOB    NOT NULL,                   -- MessagePack: a table, its columns, some rows
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, id, position),
    FOREIGN KEY (organization_id, id) REFERENCES trash (organization_id, id) ON DELETE CASCADE
) STRICT;

-- How long things are kept. What a column leaves open, a rule says of all.
CREATE TABLE retention_rule (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,                   -- derived from what it is of
    kind            TEXT    CHECK (kind IN ('conversation', 'note', 'document')),
    project         TEXT,
    source          TEXT,                               -- of a memory; the agent of a conversation
    keep_days       INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;

-- What nobody may delete, expire or purge, whatever rules say.
CREATE TABLE legal_hold (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    reason          TEXT    NOT NULL,
    subject         TEXT,                               -- id of one conversation or memory
    kind            TEXT    CHECK (kind IN ('conversation', 'note', 'document')),
    project         TEXT,
    source          TEXT,
    created_at      INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;

-- What users say of projects: that a name stands for another project, or that nothing is kept.
CREATE TABLE project_rule (
    organization_id INTEGER NOT NULL,
    project         TEXT    NOT NULL,
    same_as         TEXT,                               -- NULL: nothing of it is kept
    created_at      INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    row_hash        BLOB    NOT NULL,
    PRIMARY KEY (organization_id, project),
    CHECK (same_as <> project)
) STRICT, WITHOUT ROWID;

-- What acts on many things at once have changed, so that they can be taken back; the newest rows stay.
CREATE TABLE change_set (
    organization_id INTEGER NOT NULL,
    id              TEXT    NOT NULL,
    at              INTEGER NOT NULL,
    actor           TEXT    NOT NULL,
    kind            TEXT    NOT NULL CHECK (kind IN ('importance', 'trash', 'merge')),
    items           TEXT    NOT NULL,                   -- a JSON object: ids, and what they were before
    PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX change_set_age ON change_set (organization_id, at);
