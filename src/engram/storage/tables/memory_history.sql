-- timeline --
-- Returns number, and version if it was not the present one, of the memories that were known and
-- held at a moment, the last stored first. Later knowledge counts where clocks went back.
SELECT memory.number, was.version
FROM memory /*by_number*/ LEFT JOIN memory_version AS was
    ON was.organization_id = :organization_id AND was.memory = memory.number
    AND was.version =
        (SELECT max(version) FROM memory_version
         WHERE organization_id = :organization_id AND memory = memory.number
             AND recorded_at <= :as_of AND ended_at > :as_of AND memory.updated_at > :as_of)
WHERE memory.organization_id = :organization_id AND memory.created_at <= :as_of /*projects*/
    AND CASE WHEN was.version IS NULL THEN
        memory.record IS NOT NULL
        AND memory.updated_at <= :as_of
        AND coalesce(memory.valid_from <= :as_of, true)
        AND coalesce(memory.valid_to > :as_of, true)
        AND coalesce(memory.expires_at > :as_of, true)
    ELSE
        was.fields ->> 'is_searched'
        AND coalesce(was.fields ->> 'valid_from' <= :as_of, true)
        AND coalesce(was.fields ->> 'valid_to' > :as_of, true)
        AND coalesce(was.fields ->> 'expires_at' > :as_of, true)
    END
ORDER BY memory.number DESC
LIMIT :limit;
