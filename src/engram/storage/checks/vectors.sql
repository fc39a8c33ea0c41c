-- Each statement but the last two returns a fault in its first column, and where it is after that;
-- `repair.sql` removes what these find.

-- bad_vectors --
-- Returns fault, table and seq of vectors that are nobody's, or not as `vectors.quantise` packs
-- them: a version of 1, a scale that is finite and positive, and a byte for each dimension. Those of
-- tokens, as `vectors.tokens` packs them, are a version of 1 and 32 bytes for each of up to 46.
SELECT fault, place, seq FROM
    (SELECT
        CASE
            WHEN NOT EXISTS
                (SELECT 1 FROM message
                 WHERE message.organization_id = :organization_id AND message.key = found.key)
                THEN 'vectors are of messages that are missing'
            WHEN role IS NULL
                THEN 'vectors are of an unknown embedder'
            WHEN role <> 'old' AND (role = 'instant') <> (place = 'instant_vector')
                THEN 'vectors are not in the table of their embedder'
            WHEN substr(content, 1, 1) <> /*sqlite:*/ x'01' /*postgres: '\x01'::bytea */
                OR length(content) <> 5 + dimensions
                OR substr(content, 2, 4) = /*sqlite:*/ x'00000000' /*postgres: '\x00000000'::bytea */
                OR substr(content, 5, 1) >= /*sqlite:*/ x'80' /*postgres: '\x80'::bytea */
                OR substr(content, 5, 1) = /*sqlite:*/ x'7f' /*postgres: '\x7f'::bytea */
                    AND substr(content, 4, 1) >= /*sqlite:*/ x'80' /*postgres: '\x80'::bytea */
                THEN 'vectors cannot be read'
            WHEN tokens IS NOT NULL AND
                (substr(tokens, 1, 1) <> /*sqlite:*/ x'01' /*postgres: '\x01'::bytea */
                 OR length(tokens) % 32 <> 1 OR length(tokens) NOT BETWEEN 33 AND 1473)
                THEN 'vectors of tokens cannot be read'
        END AS fault,
        place, seq
     FROM
        (SELECT 'vector' AS place, seq, embedder, key, content, tokens FROM vector
         WHERE organization_id = :organization_id
         UNION ALL
         SELECT 'instant_vector', seq, embedder, key, content, NULL FROM instant_vector
         WHERE organization_id = :organization_id) AS found
        LEFT JOIN
        (SELECT number, role,
            /*sqlite:*/
            CASE WHEN json_valid(identity) THEN json_extract(identity, '$.dimensions') END
            /*postgres:
            CASE WHEN identity IS JSON THEN (identity::json ->> 'dimensions')::bigint END */
                AS dimensions
         FROM embedder WHERE organization_id = :organization_id) AS whose
        ON whose.number = found.embedder) AS checked
WHERE fault IS NOT NULL;

-- broken_passages --
-- Returns fault, key and embedder of messages whose passages are not all of the text once; the
-- sentences of a message that is one passage may cover it again.
SELECT DISTINCT
    'messages have vectors that overlap or leave text out' AS fault, key, embedder
FROM
    (SELECT key, embedder, start_character, end_character,
        CASE WHEN row_number() OVER passages = 2 AND start_character = 0
                AND lag(end_character) OVER passages = max(end_character) OVER message_passages
            THEN 0 ELSE lag(end_character, 1, 0) OVER passages END AS start_expected,
        lead(start_character) OVER passages AS next_start
     FROM vector
     WHERE organization_id = :organization_id
     WINDOW message_passages AS (PARTITION BY key, embedder),
        passages AS (message_passages ORDER BY start_character, end_character DESC)) AS passage
WHERE embedder IN
    (SELECT number FROM embedder
     WHERE organization_id = :organization_id AND role IN ('deep', 'next'))
    AND (start_character <> start_expected OR end_character < start_character
        OR next_start IS NULL AND end_character <>
            (SELECT characters FROM message
             WHERE message.organization_id = :organization_id AND message.key = passage.key));

-- broken_instant_passages --
-- Returns fault and key of messages whose passages do not follow each other from the beginning;
-- of very long ones not all have instant vectors.
SELECT DISTINCT
    'messages have instant vectors that overlap or leave text out' AS fault, key
FROM
    (SELECT key, embedder, start_character, end_character,
        lag(end_character, 1, 0) OVER (PARTITION BY key ORDER BY start_character)
            AS start_expected
     FROM instant_vector
     WHERE organization_id = :organization_id) AS passage
WHERE embedder IN
    (SELECT number FROM embedder WHERE organization_id = :organization_id AND role = 'instant')
    AND (start_character <> start_expected OR end_character < start_character
        OR end_character >
            (SELECT characters FROM message
             WHERE message.organization_id = :organization_id AND message.key = passage.key));

-- outdated_instants --
-- Returns fault and key of messages with instant vectors that should have given way to deep ones.
SELECT DISTINCT 'messages have instant vectors beside deep ones' AS fault, key
FROM instant_vector
WHERE organization_id = :organization_id
    AND embedder IN
        (SELECT number FROM embedder
         WHERE organization_id = :organization_id AND role = 'instant')
    AND EXISTS
        (SELECT 1 FROM vector JOIN embedder ON number = vector.embedder
         WHERE vector.organization_id = :organization_id
             AND embedder.organization_id = :organization_id
             AND role = 'deep' AND vector.key = instant_vector.key);

-- needless_waiting --
-- Returns fault and key of rows of `unembedded` that nobody should work on.
SELECT fault, key FROM
    (SELECT
        CASE
            WHEN NOT EXISTS
                (SELECT 1 FROM message
                 WHERE message.organization_id = :organization_id
                     AND message.key = unembedded.key)
                THEN 'messages wait for vectors and are missing'
            WHEN EXISTS
                (SELECT 1 FROM vector JOIN embedder ON embedder.number = vector.embedder
                 WHERE vector.organization_id = :organization_id
                     AND embedder.organization_id = :organization_id
                     AND role = 'deep' AND vector.key = unembedded.key)
                THEN 'messages wait for vectors and have them'
            WHEN attempts < 0 OR (lease_owner IS NULL) <> (lease_until IS NULL)
                THEN 'messages wait for vectors in an impossible state'
        END AS fault,
        key
     FROM unembedded
     WHERE organization_id = :organization_id) AS waiting
WHERE fault IS NOT NULL;

-- lost_messages --
-- Returns fault and key of messages that should have deep vectors and do not even wait for them.
SELECT 'messages have no deep vectors and do not wait for them' AS fault, key FROM message
WHERE organization_id = :organization_id
    AND EXISTS
        (SELECT 1 FROM embedder WHERE organization_id = :organization_id AND role = 'deep')
    AND NOT EXISTS
        (SELECT 1 FROM vector JOIN embedder ON number = vector.embedder
         WHERE vector.organization_id = :organization_id
             AND embedder.organization_id = :organization_id
             AND role = 'deep' AND vector.key = message.key)
    AND NOT EXISTS
        (SELECT 1 FROM unembedded
         WHERE unembedded.organization_id = :organization_id
             AND unembedded.key = message.key);

-- newest_seq --
-- Returns the highest seq in use.
SELECT max(newest) FROM
    (SELECT coalesce(max(seq), 0) AS newest FROM vector WHERE organization_id = :organization_id
     UNION ALL
     SELECT coalesce(max(seq), 0) FROM instant_vector WHERE organization_id = :organization_id
     UNION ALL
     SELECT coalesce(max(seq), 0) FROM vector_removal WHERE organization_id = :organization_id
     UNION ALL
     SELECT coalesce(max(seq), 0) FROM vector_state WHERE organization_id = :organization_id);

-- is_state_sound --
-- Returns whether the state knows of every seq in use; no row if there is no state.
SELECT seq >= :newest AND forgotten BETWEEN 0 AND seq FROM vector_state
WHERE organization_id = :organization_id;
