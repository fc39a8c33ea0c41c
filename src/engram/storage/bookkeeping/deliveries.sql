-- add_delivery --
-- A clock that goes back must not make a new row the oldest one.
INSERT INTO delivery (at, organization_id, client, session, event, query, shown, bytes, tokens)
SELECT
    CASE WHEN EXISTS
        (SELECT 1 FROM delivery WHERE organization_id = :organization_id AND at >= :now)
    THEN (SELECT max(at) + 1 FROM delivery WHERE organization_id = :organization_id)
    ELSE :now END,
    :organization_id, :client, :session, :event, :query, :shown, :bytes, :tokens
/*sqlite:*/ /*postgres: RETURNING at */;

-- drop_old_deliveries --
DELETE FROM delivery
WHERE organization_id = :organization_id AND at <= (
    SELECT at FROM delivery WHERE organization_id = :organization_id
    ORDER BY at DESC LIMIT 1 OFFSET :kept
);

-- delivered_by_day --
-- Returns days since 1970, and how many deliveries and tokens each has, from `since` on; the newest first.
SELECT at / 86400000000, count(*), CAST(sum(tokens) AS bigint)
FROM delivery
WHERE organization_id = :organization_id AND at >= :since
GROUP BY at / 86400000000
ORDER BY at / 86400000000 DESC;

-- list_deliveries --
-- Returns at, client, session, event, query, shown, bytes, tokens of the newest rows older than `before`,
-- of all clients or one, of all events or some.
SELECT at, client, session, event, query, shown, bytes, tokens
FROM delivery
WHERE organization_id = :organization_id AND at < :before
    AND (:any_client = 1 OR client = :client)
    AND (:any_event = 1 OR event IN (SELECT value FROM json_each(:events)))
ORDER BY at DESC
LIMIT :limit;
