-- What everything stored counts, as `stored_size.sql` says it, and the bytes of files: the quota bounds
-- their sum.
ALTER TABLE counters ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counters ADD COLUMN file_bytes INTEGER NOT NULL DEFAULT 0;

UPDATE counters SET stored_bytes = (
    SELECT
        (SELECT coalesce(sum(128 + length(CAST(
                coalesce(title, '') || coalesce(agent_id, '') || project || metadata AS BLOB))), 0)
         FROM conversation WHERE number < 4294967296)
        + (SELECT coalesce(sum(content_bytes), 0) FROM conversation
           WHERE number < 8589934592)
        + (SELECT coalesce(sum(128 + length(CAST(tag AS BLOB))), 0) FROM conversation_tag
           WHERE conversation IN (SELECT number FROM conversation WHERE number < 4294967296))
        + (SELECT coalesce(sum(128 + length(CAST(
                coalesce(name, '') || coalesce(tool_call_id, '') || coalesce(tool_name, '')
                || coalesce(metadata, '') AS BLOB))), 0)
           FROM message WHERE key < 72057594037927936)
        + (SELECT coalesce(sum(128 + length(CAST(key AS BLOB))), 0) FROM idempotency)
        + (SELECT coalesce(sum(128 + 128 * json_array_length(tags) + length(CAST(
                project || source || tags || coalesce(reason, '') || coalesce(summary, '') AS BLOB))), 0)
           FROM memory)
        + (SELECT coalesce(sum(128 + content_bytes + length(CAST(fields AS BLOB))), 0)
           FROM memory_version)
        + (SELECT count(*) * 128 FROM relation)
        + (SELECT coalesce(sum(128 + length(CAST(
                coalesce(event_id, '') || coalesce(failure_class, '') AS BLOB))), 0)
           FROM feedback)
        + (SELECT coalesce(sum(128 + length(CAST(
                project || description || coalesce(summary, '') AS BLOB))), 0)
           FROM episode)
        + (SELECT coalesce(sum(128 + length(CAST(
                coalesce(name, '') || media_type || coalesce(options, '') AS BLOB))), 0)
           FROM document)
        + (SELECT coalesce(sum(size_bytes), 0) FROM document_piece
           WHERE key >> 24 IN (SELECT number FROM document))
);
