-- Neighbours of a query in a big organisation, found by an index. What is here follows from the
-- vectors and may lag behind them: `near_upto` says how far it has come.
DO $$
DECLARE
    place text;
BEGIN
    -- Citus has every server run this, also where the extension is there: then only a superuser could.
    IF NOT EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'vector') THEN
        CREATE EXTENSION vector SCHEMA public;
    END IF;
    SELECT quote_ident(nspname) INTO place
    FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'vector';
    EXECUTE format('CREATE TABLE near_vector (
        organization_id bigint     NOT NULL,
        embedder        bigint     NOT NULL,
        seq             bigint     NOT NULL,                -- of the vector
        key             bigint     NOT NULL,
        near            %s.halfvec NOT NULL,
        PRIMARY KEY (organization_id, embedder, seq)
    ) PARTITION BY LIST (organization_id)', place);
END
$$;

ALTER TABLE near_vector ENABLE ROW LEVEL SECURITY;
ALTER TABLE near_vector FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON near_vector
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);

GRANT SELECT, DELETE ON near_vector TO engram_app;

ALTER TABLE embedder ADD COLUMN near_upto bigint;           -- NULL: compared in memory
