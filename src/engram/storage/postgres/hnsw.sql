-- The vectors of big organisations, each in a partition with an HNSW index of its own.
-- Names of tables and numbers of indexes cannot be parameters; they are this program's own integers.

-- add_upto --
UPDATE embedder SET near_upto = :upto
WHERE organization_id = :organization_id AND number = :number;

-- sizes --
-- Returns the last change of vectors, and how many vectors there are.
SELECT vector_state.seq, counters.vectors FROM vector_state
JOIN counters ON counters.organization_id = :organization_id
WHERE vector_state.organization_id = :organization_id;

-- look_wide --
-- Has a search consider as many neighbours as are wanted, and more where a filter removes some.
SELECT set_config('hnsw.ef_search', :wanted::text, true),
    set_config('hnsw.iterative_scan', 'relaxed_order', true);

-- nearest --
-- Returns the keys of the passages nearest to a query, about in that order.
SELECT key FROM near_vector
WHERE organization_id = :organization_id AND embedder = /*embedder*/ /*conditions*/
ORDER BY near::halfvec(/*dimensions*/) <=> (:query::text)::halfvec(/*dimensions*/)
LIMIT :wanted;

-- is_allowed --
AND key <@ (:allowed::text)::int8multirange

-- count_allowed --
-- Returns how many passages are allowed, at most `limit`.
SELECT count(*) FROM
    (SELECT 1 FROM unnest((:allowed::text)::int8multirange) AS span
     JOIN /*table*/ AS passage
         ON passage.organization_id = :organization_id AND passage.embedder = :embedder
         AND passage.key >= lower(span) AND passage.key < upper(span)
     LIMIT :limit) AS passages;

-- vectors_allowed --
-- Returns key and content of every passage that is allowed.
SELECT passage.key, passage.content FROM unnest((:allowed::text)::int8multirange) AS span
JOIN /*table*/ AS passage
    ON passage.organization_id = :organization_id AND passage.embedder = :embedder
    AND passage.key >= lower(span) AND passage.key < upper(span)
ORDER BY passage.seq;

-- vectors_of --
-- Returns key and content of the passages of some messages.
SELECT key, content FROM /*table*/
WHERE organization_id = :organization_id AND embedder = :embedder
    AND key IN (SELECT value FROM json_each(:keys))
ORDER BY seq;

-- vectors_after --
-- Returns seq, key and content of the next passages after `seq`.
SELECT seq, key, content FROM /*table*/
WHERE organization_id = :organization_id AND embedder = :embedder AND seq > :seq
ORDER BY seq LIMIT :limit;

-- choose --
SET LOCAL engram.organization_id = /*organization*/;

-- try_lock --
-- Returns false if another process fills the partition; held until the connection ends.
SELECT pg_try_advisory_lock(:lock);

-- find_partition --
SELECT to_regclass('engram.near_vector_/*organization*/') IS NOT NULL;

-- count_partitions --
SELECT count(*) FROM pg_inherits WHERE inhparent = 'engram.near_vector'::regclass;

-- create_partition --
SELECT add_near_partition(/*organization*/);

-- make_searchable --
-- Builds the index if there is none, and attaches the partition if it is not.
SELECT finish_near_partition(/*organization*/, /*embedder*/, /*dimensions*/);

-- add_vectors --
INSERT INTO near_vector_/*organization*/ (organization_id, embedder, seq, key, near)
SELECT /*organization*/, /*embedder*/, seq::bigint, key::bigint, near::halfvec
FROM unnest(CAST(:seqs AS text[]), CAST(:keys AS text[]), CAST(:vectors AS text[]))
    AS vector (seq, key, near);

-- remove_after --
-- Removes what a process that died has copied.
DELETE FROM near_vector_/*organization*/
WHERE organization_id = :organization_id AND embedder = :embedder AND seq > :seq;

-- remove_others --
-- Removes the vectors of an embedder that was replaced.
DELETE FROM near_vector_/*organization*/
WHERE organization_id = :organization_id AND embedder <> :embedder;

-- drop_partition --
SELECT drop_near_partition(/*organization*/);
