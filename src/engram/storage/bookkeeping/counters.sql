-- The stored size of rows, as the quota counts it: `:row` for each, and the texts that a caller gave. Indexes,
-- vectors, chunks, the identities of captured messages, the audit, tombstones and the entries of the trash themselves count nothing. Conversations have numbers below 2^32 =
-- 4294967296, the texts of memories below 2^33 = 8589934592 (`model/row_keys.py`).

-- get_counters --
SELECT conversations, messages, content_bytes, chunks, vectors, pending, memories, documents,
    stored_bytes, file_bytes, trashed_messages
FROM counters
WHERE organization_id = :organization_id;

-- add_to_counters --
-- Returns the messages and the bytes that a quota bounds.
UPDATE counters SET
    conversations = conversations + :conversations,
    messages = messages + :messages,
    content_bytes = content_bytes + :content_bytes,
    chunks = chunks + :chunks,
    memories = memories + :memories,
    documents = documents + :documents,
    stored_bytes = stored_bytes + :stored_bytes,
    file_bytes = file_bytes + :file_bytes,
    trashed_messages = trashed_messages + :trashed_messages
WHERE organization_id = :organization_id
RETURNING messages + trashed_messages, stored_bytes + file_bytes;

-- put_file_bytes --
UPDATE counters SET file_bytes = :file_bytes WHERE organization_id = :organization_id;

-- count_indexed --
-- Returns how many messages there are, how many have deep vectors, and how many instant ones.
SELECT
    (SELECT count(*) FROM message WHERE organization_id = :organization_id),
    (SELECT count(DISTINCT key) FROM vector
     WHERE organization_id = :organization_id AND embedder =
         (SELECT number FROM embedder WHERE organization_id = :organization_id AND role = 'deep')),
    (SELECT count(DISTINCT key) FROM instant_vector
     WHERE organization_id = :organization_id AND embedder =
         (SELECT number FROM embedder
          WHERE organization_id = :organization_id AND role = 'instant'));

-- size_of_conversation --
-- Returns the size of a conversation, with its tags, messages and idempotency keys.
SELECT
    (SELECT :row + content_bytes + length(CAST(
            coalesce(title, '') || coalesce(agent_id, '') || project || metadata AS BLOB))
     FROM conversation WHERE organization_id = :organization_id AND number = :conversation)
    + (SELECT coalesce(sum(:row + length(CAST(tag AS BLOB))), 0) FROM conversation_tag
       WHERE +organization_id = :organization_id AND conversation = :conversation)
    + (SELECT coalesce(sum(:row + length(CAST(
            coalesce(name, '') || coalesce(tool_call_id, '') || coalesce(tool_name, '')
            || coalesce(metadata, '') AS BLOB))), 0)
       FROM message WHERE organization_id = :organization_id AND key BETWEEN :first AND :last)
    + (SELECT coalesce(sum(:row + length(CAST(key AS BLOB))), 0) FROM idempotency
       WHERE +organization_id = :organization_id AND conversation = :conversation);

-- size_of_messages --
-- Returns the size of messages of a conversation without their contents.
SELECT coalesce(sum(:row + length(CAST(
        coalesce(name, '') || coalesce(tool_call_id, '') || coalesce(tool_name, '')
        || coalesce(metadata, '') AS BLOB))), 0)
FROM message WHERE organization_id = :organization_id AND key BETWEEN :first AND :last;

-- size_of_hidden --
-- Returns the size of a conversation whose messages are removed, with its tags.
SELECT
    (SELECT :row + length(CAST(
            coalesce(title, '') || coalesce(agent_id, '') || project || metadata AS BLOB))
     FROM conversation WHERE organization_id = :organization_id AND number = :conversation)
    + (SELECT coalesce(sum(:row + length(CAST(tag AS BLOB))), 0) FROM conversation_tag
       WHERE +organization_id = :organization_id AND conversation = :conversation);

-- size_of_memory --
-- Returns the size of a memory with its present text and its versions from one on.
SELECT
    (SELECT :row + :row *
            /*sqlite:*/ json_array_length(tags) /*postgres: json_array_length(tags::json) */ + length(CAST(
            project || source || tags || coalesce(reason, '') || coalesce(summary, '') AS BLOB))
        + coalesce(
            (SELECT content_bytes FROM conversation
             WHERE conversation.organization_id = :organization_id
                 AND conversation.number = memory.record AND conversation.number < 8589934592), 0)
     FROM memory WHERE organization_id = :organization_id AND number = :number)
    + (SELECT coalesce(sum(:row + content_bytes + length(CAST(fields AS BLOB))), 0)
       FROM memory_version
       WHERE organization_id = :organization_id AND memory = :number AND version >= :since);

-- size_of_ties --
-- Returns the size of the relations of a memory, in both directions, and of the feedback on it.
SELECT
    (SELECT count(*) * :row FROM relation
     WHERE +organization_id = :organization_id AND source = :number)
    + (SELECT count(*) * :row FROM relation
       WHERE +organization_id = :organization_id AND target = :number)
    + (SELECT coalesce(sum(:row + length(CAST(
            coalesce(event_id, '') || coalesce(failure_class, '') AS BLOB))), 0)
       FROM feedback WHERE organization_id = :organization_id AND memory = :number);

-- size_of_feedback --
-- Returns the size of the feedback on a memory.
SELECT coalesce(sum(:row + length(CAST(
        coalesce(event_id, '') || coalesce(failure_class, '') AS BLOB))), 0)
FROM feedback WHERE organization_id = :organization_id AND memory = :number;

-- size_of_episode --
SELECT :row + length(CAST(project || description || coalesce(summary, '') AS BLOB)) FROM episode
WHERE organization_id = :organization_id AND id = :id;

-- size_of_episodes --
-- Returns the size of the episodes of a project.
SELECT coalesce(sum(:row + length(CAST(
        project || description || coalesce(summary, '') AS BLOB))), 0)
FROM episode WHERE organization_id = :organization_id AND project = :project;

-- size_of_document --
-- Returns the size of a document or upload without its pieces.
SELECT :row + length(CAST(
        coalesce(name, '') || media_type || coalesce(options, '') AS BLOB))
FROM document WHERE organization_id = :organization_id AND number = :number;

-- size_of_all --
-- Returns the size of everything; for `doctor` only.
SELECT
    (SELECT coalesce(sum(:row + length(CAST(
            coalesce(title, '') || coalesce(agent_id, '') || project || metadata AS BLOB))), 0)
     FROM conversation WHERE organization_id = :organization_id AND number < 4294967296)
    + (SELECT coalesce(sum(content_bytes), 0) FROM conversation
       WHERE organization_id = :organization_id AND number < 8589934592)
    + (SELECT coalesce(sum(:row + length(CAST(tag AS BLOB))), 0) FROM conversation_tag
       WHERE organization_id = :organization_id AND conversation IN
           (SELECT number FROM conversation
            WHERE organization_id = :organization_id AND number < 4294967296))
    + (SELECT coalesce(sum(:row + length(CAST(
            coalesce(name, '') || coalesce(tool_call_id, '') || coalesce(tool_name, '')
            || coalesce(metadata, '') AS BLOB))), 0)
       FROM message WHERE organization_id = :organization_id AND key < 72057594037927936)
    + (SELECT coalesce(sum(:row + length(CAST(key AS BLOB))), 0) FROM idempotency
       WHERE organization_id = :organization_id)
    + (SELECT coalesce(sum(:row + :row *
            /*sqlite:*/ json_array_length(tags) /*postgres: json_array_length(tags::json) */ + length(CAST(
            project || source || tags || coalesce(reason, '') || coalesce(summary, '') AS BLOB))), 0)
       FROM memory WHERE organization_id = :organization_id)
    + (SELECT coalesce(sum(:row + content_bytes + length(CAST(fields AS BLOB))), 0)
       FROM memory_version WHERE organization_id = :organization_id)
    + (SELECT count(*) * :row FROM relation WHERE organization_id = :organization_id)
    + (SELECT coalesce(sum(:row + length(CAST(
            coalesce(event_id, '') || coalesce(failure_class, '') AS BLOB))), 0)
       FROM feedback WHERE organization_id = :organization_id)
    + (SELECT coalesce(sum(:row + length(CAST(
            project || description || coalesce(summary, '') AS BLOB))), 0)
       FROM episode WHERE organization_id = :organization_id)
    + (SELECT coalesce(sum(:row + length(CAST(
            coalesce(name, '') || media_type || coalesce(options, '') AS BLOB))), 0)
       FROM document WHERE organization_id = :organization_id)
    + (SELECT coalesce(sum(size_bytes), 0) FROM document_piece
       WHERE organization_id = :organization_id AND key >> 24 IN
           (SELECT number FROM document WHERE organization_id = :organization_id))
    + (SELECT coalesce(sum(stored_bytes), 0) FROM trash WHERE organization_id = :organization_id);
