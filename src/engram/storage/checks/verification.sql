-- integrity --
/*sqlite:*/ PRAGMA integrity_check(20) /*postgres: SELECT 'ok' */;

-- foreign_keys --
-- Returns the tables that refer to missing rows; PostgreSQL lets none do that.
/*sqlite:*/ PRAGMA foreign_key_check /*postgres: SELECT '' WHERE false */;

-- messages_of --
-- Returns key, characters, encoding, hash and the bytes of the content of keys `first` to `last`.
SELECT key, characters, content_encoding, sha256, CAST(content AS BLOB) FROM message
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
ORDER BY key;

-- conversation_sizes --
-- Returns number, id, content_bytes of every conversation that is not being removed.
SELECT number, id, content_bytes FROM conversation
WHERE organization_id = :organization_id AND number NOT IN
    (SELECT conversation FROM leaving WHERE organization_id = :organization_id)
ORDER BY number;

-- sequences --
-- Returns number, id, message_count of every conversation, and count, first and last of its keys;
-- the plus makes SQLite look these up.
SELECT number, id, message_count, count(key), min(key), max(key)
FROM conversation LEFT JOIN message
    ON +message.organization_id = :organization_id
    AND key BETWEEN number << 24 AND (number << 24) + 16777215
WHERE conversation.organization_id = :organization_id
GROUP BY number, id, message_count
ORDER BY number;

-- stray_messages --
-- Returns the numbers of conversations that are missing, and how many messages each has.
SELECT key >> 24 AS number, count(*) FROM message
WHERE organization_id = :organization_id AND key >> 24 NOT IN
    (SELECT conversation.number FROM conversation WHERE organization_id = :organization_id)
GROUP BY key >> 24;

-- foreign_rows --
-- Returns how many rows carry another organisation's number; PostgreSQL lets nobody see any.
SELECT /*sqlite:*/
    (SELECT count(*) FROM conversation WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM conversation_tag WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM message WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM idempotency WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM captured_message WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM forgotten_session WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM leaving WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM erasure WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM erased WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM audit WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM delivery WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM job WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM embedder WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM vector WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM instant_vector WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM vector_removal WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM unembedded WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM episode WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM memory WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM memory_version WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM relation WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM feedback WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM tombstone WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM document WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM document_piece WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM trash WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM trash_part WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM retention_rule WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM legal_hold WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM project_rule WHERE organization_id <> :organization_id)
    + (SELECT count(*) FROM change_set WHERE organization_id <> :organization_id)
    /*postgres: 0 */;

-- file_bytes --
-- Returns what the files of the organisation are said to have.
SELECT coalesce(max(file_bytes), 0) FROM counters WHERE organization_id = :organization_id;

-- count_all --
-- Returns what the counters should say, but for bytes stored and those of files. A document is one message, however many chunks it has.
SELECT
    (SELECT count(*) FROM conversation
     WHERE organization_id = :organization_id AND number < 4294967296)
    - (SELECT count(*) FROM leaving WHERE organization_id = :organization_id),
    (SELECT count(*) FROM message
     WHERE organization_id = :organization_id AND key < 144115188075855872)
    + (SELECT count(*) FROM conversation
       WHERE organization_id = :organization_id AND number >> 32 = 2),
    (SELECT coalesce(sum(content_bytes), 0) FROM conversation
     WHERE organization_id = :organization_id)
    + (SELECT coalesce(sum(content_bytes), 0) FROM memory_version
       WHERE organization_id = :organization_id)
    + (SELECT coalesce(sum(size_bytes), 0) FROM document
       WHERE organization_id = :organization_id AND state <> 'uploading'),
    (SELECT coalesce(sum(
        CASE WHEN message_count > :length THEN 1 + (message_count - :length + :stride - 1) / :stride
        WHEN message_count > 0 THEN 1 ELSE 0 END), 0)
     FROM conversation WHERE organization_id = :organization_id),
    (SELECT count(*) FROM vector WHERE organization_id = :organization_id)
    + (SELECT count(*) FROM instant_vector WHERE organization_id = :organization_id),
    (SELECT count(*) FROM unembedded WHERE organization_id = :organization_id),
    (SELECT count(*) FROM conversation
     WHERE organization_id = :organization_id AND number >= 4294967296),
    (SELECT count(*) FROM conversation
     WHERE organization_id = :organization_id AND number >> 32 = 2);

-- trashed_messages --
-- Returns how many messages are in the trash, as the quota counts them.
SELECT coalesce(sum(messages), 0) FROM trash WHERE organization_id = :organization_id;

-- conversation_lengths --
-- Returns number, id, message_count of every conversation.
SELECT number, id, message_count FROM conversation
WHERE organization_id = :organization_id
ORDER BY number;

-- words_of_windows --
-- Returns how many words all windows are said to have.
SELECT window_words FROM upkeep WHERE organization_id = :organization_id;

-- invalid_jobs --
-- Returns the ids of jobs in a state that the program never leaves them in.
SELECT id FROM job
WHERE organization_id = :organization_id
    AND (attempts < 0 OR kind = '' OR (lease_owner IS NULL) <> (lease_until IS NULL));
