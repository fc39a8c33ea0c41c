-- What everything stored counts, as `stored_size.sql` says it, and the bytes of files: the quota bounds
-- their sum.
ALTER TABLE counters ADD COLUMN stored_bytes bigint NOT NULL DEFAULT 0;
ALTER TABLE counters ADD COLUMN file_bytes bigint NOT NULL DEFAULT 0;

-- Row-level security holds for the owner, too: each organisation is counted as itself.
DO $$
DECLARE
    tenant bigint;
BEGIN
    -- A shard has no table of organisations that is filled, but lets its owner see whom it holds.
    FOR tenant IN
        SELECT number FROM organization UNION SELECT number FROM move
        UNION SELECT organization_id FROM meta
    LOOP
        PERFORM set_config('engram.organization_id', tenant::text, true);
        UPDATE counters SET stored_bytes = (
            SELECT
                (SELECT coalesce(sum(128 + octet_length(
                        coalesce(title, '') || coalesce(agent_id, '') || project || metadata)), 0)
                 FROM conversation WHERE organization_id = tenant AND number < 4294967296)
                + (SELECT coalesce(sum(content_bytes), 0) FROM conversation
                   WHERE organization_id = tenant AND number < 8589934592)
                + (SELECT coalesce(sum(128 + octet_length(tag)), 0) FROM conversation_tag
                   WHERE organization_id = tenant AND conversation IN
                       (SELECT number FROM conversation
                        WHERE organization_id = tenant AND number < 4294967296))
                + (SELECT coalesce(sum(128 + octet_length(
                        coalesce(name, '') || coalesce(tool_call_id, '') || coalesce(tool_name, '')
                        || coalesce(metadata, ''))), 0)
                   FROM message WHERE organization_id = tenant AND key < 72057594037927936)
                + (SELECT coalesce(sum(128 + octet_length(key)), 0) FROM idempotency
                   WHERE organization_id = tenant)
                + (SELECT coalesce(sum(128 + 128 *
                        json_array_length(tags::json) + octet_length(
                        project || source || tags || coalesce(reason, '') || coalesce(summary, ''))), 0)
                   FROM memory WHERE organization_id = tenant)
                + (SELECT coalesce(sum(128 + content_bytes + octet_length(fields)), 0)
                   FROM memory_version WHERE organization_id = tenant)
                + (SELECT count(*) * 128 FROM relation WHERE organization_id = tenant)
                + (SELECT coalesce(sum(128 + octet_length(
                        coalesce(event_id, '') || coalesce(failure_class, ''))), 0)
                   FROM feedback WHERE organization_id = tenant)
                + (SELECT coalesce(sum(128 + octet_length(
                        project || description || coalesce(summary, ''))), 0)
                   FROM episode WHERE organization_id = tenant)
                + (SELECT coalesce(sum(128 + octet_length(
                        coalesce(name, '') || media_type || coalesce(options, ''))), 0)
                   FROM document WHERE organization_id = tenant)
                + (SELECT coalesce(sum(size_bytes), 0) FROM document_piece
                   WHERE organization_id = tenant AND key >> 24 IN
                       (SELECT number FROM document WHERE organization_id = tenant))
        )
        WHERE organization_id = tenant;
    END LOOP;
    PERFORM set_config('engram.organization_id', '', true);
END
$$;

-- What organisations did, by day in UTC.
CREATE TABLE usage_day (
    organization_id text   COLLATE "C" NOT NULL
        REFERENCES organization (organization_id) ON DELETE CASCADE,
    day             text   COLLATE "C" NOT NULL,            -- as in 2026-01-31
    requests        bigint NOT NULL DEFAULT 0,
    searches        bigint NOT NULL DEFAULT 0,
    embedded_texts  bigint NOT NULL DEFAULT 0,
    bytes_stored    bigint NOT NULL DEFAULT 0,              -- that the quota counts, when last seen
    PRIMARY KEY (organization_id, day)
);

GRANT SELECT, INSERT, UPDATE, DELETE ON usage_day TO engram_app;
