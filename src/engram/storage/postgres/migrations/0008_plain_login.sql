-- Let the server log in as a user that owns nothing, and wall off the control tables too.

-- Policies without a sub-select, which Citus refuses in them.
DO $$
DECLARE
    walled regclass;
BEGIN
    FOR walled IN
        SELECT polrelid FROM pg_policy JOIN pg_class ON pg_class.oid = polrelid
        WHERE relnamespace = 'engram'::regnamespace AND polname = 'own_rows'
    LOOP
        EXECUTE format(
            $policy$
            ALTER POLICY own_rows ON %s
            USING (organization_id =
                nullif(current_setting('engram.organization_id', true), '')::bigint)
            WITH CHECK (organization_id =
                nullif(current_setting('engram.organization_id', true), '')::bigint)
            $policy$,
            walled);
    END LOOP;
END
$$;

-- A transaction that says `engram.control = all` sees the control tables. One of an organisation
-- does not, and one that looks a key up, or acts for an organisation, sees the rows it is about.
ALTER TABLE organization ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON organization
    USING (current_setting('engram.control', true) = 'all'
        OR organization_id = nullif(current_setting('engram.public_id', true), ''))
    WITH CHECK (current_setting('engram.control', true) = 'all');

ALTER TABLE api_key ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON api_key
    USING (current_setting('engram.control', true) = 'all'
        OR organization_id = nullif(current_setting('engram.public_id', true), '')
        OR secret_hash = nullif(current_setting('engram.secret_hash', true), ''))
    WITH CHECK (current_setting('engram.control', true) = 'all');

ALTER TABLE control_audit ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON control_audit
    USING (current_setting('engram.control', true) = 'all'
        OR organization_id = nullif(current_setting('engram.public_id', true), ''))
    WITH CHECK (current_setting('engram.control', true) = 'all');

ALTER TABLE key_address ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON key_address
    USING (current_setting('engram.control', true) = 'all'
        OR organization_id = nullif(current_setting('engram.public_id', true), ''))
    WITH CHECK (current_setting('engram.control', true) = 'all');

ALTER TABLE usage_day ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON usage_day
    USING (current_setting('engram.control', true) = 'all'
        OR organization_id = nullif(current_setting('engram.public_id', true), ''))
    WITH CHECK (current_setting('engram.control', true) = 'all');

-- Whoever removes the rows of an organisation sees that they are to be removed.
ALTER TABLE removal ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON removal
    USING (current_setting('engram.control', true) = 'all'
        OR number = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK (current_setting('engram.control', true) = 'all');

ALTER TABLE move ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON move
    USING (current_setting('engram.control', true) = 'all')
    WITH CHECK (current_setting('engram.control', true) = 'all');

ALTER TABLE control_state ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY in_reach ON control_state
    USING (current_setting('engram.control', true) = 'all')
    WITH CHECK (current_setting('engram.control', true) = 'all');

-- What only the owner of the tables can do, for those who own nothing. Each function does it for
-- the organisation that the transaction names, and for no other.
CREATE FUNCTION add_near_partition(organization bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = engram, pg_temp AS $$
DECLARE
    part text := format('near_vector_%s', organization);
BEGIN
    IF organization IS DISTINCT FROM
        nullif(current_setting('engram.organization_id', true), '')::bigint
    THEN
        RAISE insufficient_privilege;
    END IF;
    EXECUTE format(
        'CREATE TABLE %I (LIKE near_vector INCLUDING ALL, CHECK (organization_id = %s))',
        part, organization);
    -- Who names a partition itself is not held by the policy of the whole table.
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part);
    EXECUTE format(
        $policy$
        CREATE POLICY own_rows ON %I
        USING (organization_id =
            nullif(current_setting('engram.organization_id', true), '')::bigint)
        $policy$,
        part);
    EXECUTE format('GRANT SELECT, INSERT, DELETE ON %I TO engram_app', part);
END
$$;

CREATE FUNCTION finish_near_partition(organization bigint, embedder bigint, dimensions bigint)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = engram, pg_temp AS $$
DECLARE
    part text := format('near_vector_%s', organization);
    place text;
BEGIN
    IF organization IS DISTINCT FROM
        nullif(current_setting('engram.organization_id', true), '')::bigint
    THEN
        RAISE insufficient_privilege;
    END IF;
    SELECT quote_ident(nspname) INTO place
    FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'vector';
    EXECUTE format(
        'CREATE INDEX IF NOT EXISTS %I ON %I USING hnsw '
        '((near::%s.halfvec(%s)) %s.halfvec_cosine_ops) '
        'WITH (m = 16, ef_construction = 64) WHERE embedder = %s',
        format('near_vector_%s_%s', organization, embedder), part, place, dimensions, place,
        embedder);
    IF NOT (SELECT relispartition FROM pg_class WHERE oid = to_regclass(part)) THEN
        EXECUTE format(
            'ALTER TABLE near_vector ATTACH PARTITION %I FOR VALUES IN (%s)',
            part, organization);
    END IF;
END
$$;

CREATE FUNCTION drop_near_partition(organization bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = engram, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM removal WHERE number = organization) THEN
        RAISE insufficient_privilege;
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS %I', format('near_vector_%s', organization));
END
$$;

-- Has a table that counts its rows go on behind a number; never back.
CREATE FUNCTION skip_numbers(table_name text, last_number bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = engram, pg_temp AS $$
BEGIN
    IF current_setting('engram.control', true) IS DISTINCT FROM 'all' THEN
        RAISE insufficient_privilege;
    END IF;
    PERFORM setval(sequence, last_number)
    FROM (
        SELECT pg_get_serial_sequence('engram.' || quote_ident(table_name), attname)::regclass
            AS sequence
        FROM pg_attribute
        WHERE attrelid = to_regclass('engram.' || quote_ident(table_name)) AND attidentity <> ''
    ) AS counting
    WHERE coalesce(pg_sequence_last_value(sequence), 0) < last_number;
END
$$;

REVOKE EXECUTE ON FUNCTION add_near_partition, finish_near_partition, drop_near_partition,
    skip_numbers FROM PUBLIC;
GRANT EXECUTE ON FUNCTION add_near_partition, finish_near_partition, drop_near_partition,
    skip_numbers TO engram_app;

-- Partitions that were made before, attached or not.
DO $$
DECLARE
    part regclass;
BEGIN
    FOR part IN
        SELECT oid FROM pg_class
        WHERE relnamespace = 'engram'::regnamespace AND relkind = 'r'
            AND relname ~ '^near_vector_[0-9]+$'
    LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part);
        EXECUTE format(
            $policy$
            CREATE POLICY own_rows ON %s
            USING (organization_id =
                nullif(current_setting('engram.organization_id', true), '')::bigint)
            $policy$,
            part);
        EXECUTE format('GRANT SELECT, INSERT, DELETE ON %s TO engram_app', part);
    END LOOP;
END
$$;
