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
        /*sqlite:*/ was.fields ->> 'is_searched'
        /*postgres: (was.fields::json ->> 'is_searched')::boolean */
        AND coalesce(
            /*sqlite:*/ was.fields ->> 'valid_from'
            /*postgres: (was.fields::json ->> 'valid_from')::bigint */ <= :as_of, true)
        AND coalesce(
            /*sqlite:*/ was.fields ->> 'valid_to'
            /*postgres: (was.fields::json ->> 'valid_to')::bigint */ > :as_of, true)
        AND coalesce(
            /*sqlite:*/ was.fields ->> 'expires_at'
            /*postgres: (was.fields::json ->> 'expires_at')::bigint */ > :as_of, true)
    END
ORDER BY memory.number DESC
LIMIT :limit;
