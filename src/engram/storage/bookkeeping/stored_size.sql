-- What rows count towards the quota of bytes: `:row` for each, and the texts that a caller gave. Indexes,
-- vectors, chunks, the audit and tombstones count nothing. Conversations have numbers below 2^32 =
-- 4294967296, the texts of memories below 2^33 = 8589934592 (`model/row_keys.py`).

-- size_of_conversation --
-- Returns what a conversation counts, with its tags, messages and idempotency keys.
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

-- size_of_memory --
-- Returns what a memory counts with its present text and its versions from one on.
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
-- Returns what the relations of a memory, either way, and the feedback on it count.
SELECT
    (SELECT count(*) * :row FROM relation
     WHERE +organization_id = :organization_id AND source = :number)
    + (SELECT count(*) * :row FROM relation
       WHERE +organization_id = :organization_id AND target = :number)
    + (SELECT coalesce(sum(:row + length(CAST(
            coalesce(event_id, '') || coalesce(failure_class, '') AS BLOB))), 0)
       FROM feedback WHERE organization_id = :organization_id AND memory = :number);

-- size_of_feedback --
-- Returns what the feedback on a memory counts.
SELECT coalesce(sum(:row + length(CAST(
        coalesce(event_id, '') || coalesce(failure_class, '') AS BLOB))), 0)
FROM feedback WHERE organization_id = :organization_id AND memory = :number;

-- size_of_episode --
SELECT :row + length(CAST(project || description || coalesce(summary, '') AS BLOB)) FROM episode
WHERE organization_id = :organization_id AND id = :id;

-- size_of_episodes --
-- Returns what the episodes of a project count.
SELECT coalesce(sum(:row + length(CAST(
        project || description || coalesce(summary, '') AS BLOB))), 0)
FROM episode WHERE organization_id = :organization_id AND project = :project;

-- size_of_document --
-- Returns what a document or upload counts, but for its pieces.
SELECT :row + length(CAST(
        coalesce(name, '') || media_type || coalesce(options, '') AS BLOB))
FROM document WHERE organization_id = :organization_id AND number = :number;

-- size_of_all --
-- Returns what everything counts; for `doctor` alone.
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
           (SELECT number FROM document WHERE organization_id = :organization_id));
