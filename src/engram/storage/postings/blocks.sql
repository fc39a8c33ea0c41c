-- :generation_step is 0 for the present index and 1 for that being built.

-- count_added --
-- Adds to the totals and to the words of the tail, and takes a row of it.
UPDATE word_index SET
    texts = texts + CASE WHEN :generation_step = 0 THEN :more_texts ELSE 0 END,
    words = words + CASE WHEN :generation_step = 0 THEN :more_words ELSE 0 END,
    next_texts = next_texts + CASE WHEN :generation_step = 1 THEN :more_texts ELSE 0 END,
    next_words = next_words + CASE WHEN :generation_step = 1 THEN :more_words ELSE 0 END,
    tail_words = tail_words + CASE WHEN :generation_step = 0 THEN :more_tail ELSE 0 END,
    next_tail_words = next_tail_words + CASE WHEN :generation_step = 1 THEN :more_tail ELSE 0 END,
    tail_rows = tail_rows + CASE WHEN :generation_step = 0 THEN :more_rows ELSE 0 END,
    next_tail_rows = next_tail_rows + CASE WHEN :generation_step = 1 THEN :more_rows ELSE 0 END
WHERE organization_id = :organization_id;

-- add_tail --
-- Fills the row of the tail taken last, which is there already if it was filled before the last merge:
-- rows that are used again leave no room behind that only a vacuum finds.
INSERT INTO word_tail (organization_id, generation, number, words, hashes, messages)
SELECT organization_id, generation + :generation_step,
    CASE WHEN :generation_step = 0 THEN tail_rows ELSE next_tail_rows END, :words, :hashes, :messages
FROM word_index WHERE organization_id = :organization_id
ON CONFLICT (organization_id, generation, number)
DO UPDATE SET words = CAST(word_tail.words || excluded.words AS BLOB),
    hashes = CAST(word_tail.hashes || excluded.hashes AS BLOB),
    messages = CAST(word_tail.messages || excluded.messages AS BLOB);

-- add_lengths --
-- Adds the lengths of messages to their rows.
INSERT INTO word_length (organization_id, generation, page, content)
/*sqlite:*/
SELECT organization_id, generation + :generation_step, :page, :packed
FROM word_index WHERE organization_id = :organization_id
/*postgres:
SELECT word_index.organization_id, generation + :generation_step, given.page, given.packed
FROM word_index, unnest(:page::bigint[], :packed::bytea[]) AS given (page, packed)
WHERE word_index.organization_id = :organization_id
*/
ON CONFLICT (organization_id, generation, page)
DO UPDATE SET content = CAST(word_length.content || excluded.content AS BLOB);

-- put_lengths --
-- Replaces the lengths of messages in their rows.
INSERT INTO word_length (organization_id, generation, page, content)
/*sqlite:*/
SELECT organization_id, generation + :generation_step, :page, :packed
FROM word_index WHERE organization_id = :organization_id
/*postgres:
SELECT word_index.organization_id, generation + :generation_step, given.page, given.packed
FROM word_index, unnest(:page::bigint[], :packed::bytea[]) AS given (page, packed)
WHERE word_index.organization_id = :organization_id
*/
ON CONFLICT (organization_id, generation, page) DO UPDATE SET content = excluded.content;

-- put_pages --
INSERT INTO word_page (organization_id, generation, first_term, content)
/*sqlite:*/
SELECT organization_id, generation + :generation_step, :term, :packed
FROM word_index WHERE organization_id = :organization_id
/*postgres:
SELECT word_index.organization_id, generation + :generation_step, given.term, given.packed
FROM word_index, unnest(:term::text[], :packed::bytea[]) AS given (term, packed)
WHERE word_index.organization_id = :organization_id
*/
ON CONFLICT (organization_id, generation, first_term) DO UPDATE SET content = excluded.content;

-- put_blocks --
INSERT INTO word_block (organization_id, generation, term, first_key, last_key, content)
/*sqlite:*/
SELECT organization_id, generation + :generation_step, :term, :first_key, :last_key, :packed
FROM word_index WHERE organization_id = :organization_id
/*postgres:
SELECT word_index.organization_id, generation + :generation_step, given.term, given.first_key,
    given.last_key, given.packed
FROM word_index,
    unnest(:term::text[], :first_key::bigint[], :last_key::bigint[], :packed::bytea[])
        AS given (term, first_key, last_key, packed)
WHERE word_index.organization_id = :organization_id
*/
ON CONFLICT (organization_id, generation, term, first_key)
DO UPDATE SET last_key = excluded.last_key, content = excluded.content;

-- put_tail --
-- Replaces a row of the tail.
UPDATE word_tail SET words = :words, hashes = :hashes, messages = :messages
WHERE organization_id = :organization_id AND number = :number
    AND generation = :generation_step +
        (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- delete_lengths --
DELETE FROM word_length
WHERE organization_id = :organization_id AND page IN (SELECT value FROM json_each(:pages))
    AND generation = :generation_step +
        (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- delete_pages --
DELETE FROM word_page
WHERE organization_id = :organization_id AND first_term /*sqlite:*/ IN (SELECT value FROM json_each(:terms)) /*postgres: = ANY(:terms::text[]) */
    AND generation = :generation_step +
        (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- delete_block --
DELETE FROM word_block
WHERE organization_id = :organization_id AND term = :term AND first_key = :first_key
    AND generation = :generation_step +
        (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- delete_tail --
DELETE FROM word_tail
WHERE organization_id = :organization_id AND number IN (SELECT value FROM json_each(:numbers))
    AND generation = :generation_step +
        (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- empty_tail --
UPDATE word_tail SET words = :nothing, hashes = :nothing, messages = :nothing
WHERE organization_id = :organization_id AND generation = :generation_step +
    (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- forget_tail --
UPDATE word_index SET
    tail_rows = CASE WHEN :generation_step = 0 THEN 0 ELSE tail_rows END,
    tail_words = CASE WHEN :generation_step = 0 THEN 0 ELSE tail_words END,
    next_tail_rows = CASE WHEN :generation_step = 1 THEN 0 ELSE next_tail_rows END,
    next_tail_words = CASE WHEN :generation_step = 1 THEN 0 ELSE next_tail_words END
WHERE organization_id = :organization_id;

-- next_words --
-- Returns how many words the index being built has, and its tail.
SELECT next_words, next_tail_words FROM word_index WHERE organization_id = :organization_id;

-- tail --
-- Returns number, words, hashes and messages of the rows of the tail.
SELECT number, words, hashes, messages FROM word_tail
WHERE organization_id = :organization_id AND generation = :generation_step +
    (SELECT generation FROM word_index WHERE organization_id = :organization_id)
ORDER BY number;

-- pages_of_terms --
-- Returns the pages that terms belong to. An array: with row-level security PostgreSQL answers a subquery
-- here by reading all pages.
SELECT first_term, content FROM word_page
WHERE organization_id = :organization_id AND generation = :generation_step +
        (SELECT generation FROM word_index WHERE organization_id = :organization_id)
    AND first_term /*sqlite:*/ IN ( /*postgres: = ANY (ARRAY( */
        SELECT
            (SELECT first_term FROM word_page AS before
             WHERE organization_id = :organization_id AND generation = :generation_step +
                    (SELECT generation FROM word_index WHERE organization_id = :organization_id)
                AND first_term <= given.value
             ORDER BY first_term DESC LIMIT 1)
         FROM /*sqlite:*/ json_each(:terms) AS given) /*postgres: unnest(:terms::text[]) AS given (value))) */;

-- blocks_of_terms --
-- Returns the blocks of terms that may hold messages between two keys.
SELECT term, first_key, content FROM word_block
WHERE organization_id = :organization_id AND term /*sqlite:*/ IN (SELECT value FROM json_each(:terms)) /*postgres: = ANY(:terms::text[]) */
    AND first_key <= :last_key AND last_key >= :first_key
    AND generation = :generation_step +
        (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- length_rows --
-- Returns the lengths of messages as they are stored.
SELECT page, content FROM word_length
WHERE organization_id = :organization_id AND page IN (SELECT value FROM json_each(:pages))
    AND generation = :generation_step +
        (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- drop_lengths --
-- Removes what belongs to an index other than the present one.
DELETE FROM word_length
WHERE organization_id = :organization_id AND generation <>
    (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- drop_pages --
DELETE FROM word_page
WHERE organization_id = :organization_id AND generation <>
    (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- drop_blocks --
DELETE FROM word_block
WHERE organization_id = :organization_id AND generation <>
    (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- drop_tail --
DELETE FROM word_tail
WHERE organization_id = :organization_id AND generation <>
    (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- restore_row --
-- A row that was lost comes back, with no present index.
INSERT INTO word_index (organization_id) VALUES (:organization_id)
ON CONFLICT DO NOTHING;

-- forget_next --
UPDATE word_index SET next_texts = 0, next_words = 0, next_tail_rows = 0, next_tail_words = 0
WHERE organization_id = :organization_id;

-- take_over --
UPDATE word_index SET
    generation = generation + 1, texts = next_texts, words = next_words,
    tail_rows = next_tail_rows, tail_words = next_tail_words,
    next_texts = 0, next_words = 0, next_tail_rows = 0, next_tail_words = 0
WHERE organization_id = :organization_id;

-- statistics --
-- Returns how many messages are indexed, and how many words they have.
SELECT texts, words FROM word_index WHERE organization_id = :organization_id;

-- count --
SELECT coalesce(sum(/*sqlite:*/ length(content) /*postgres: octet_length(content) */), 0)
FROM word_length
WHERE organization_id = :organization_id AND generation =
    (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- postings --
-- Returns the columns of `block_cache.Answer`: the state of the index, its tail, and the pages and blocks of some
-- words. If the caller's cache is of the current epoch (see there), only tail rows after the first :rows and only the
-- :missing words are returned. For PostgreSQL alone.
SELECT held.word_revision, held.generation, held.tail_rows, held.rows_known, held.asked,
    tail.words, tail.hashes, tail.messages, blocks.sizes, blocks.contents, pages.sizes, pages.contents,
    near.pages, lengths.pages, lengths.sizes, lengths.contents
FROM (
    SELECT word_revision, generation, tail_rows,
        CASE WHEN is_known THEN CAST(:rows AS bigint) ELSE 0 END AS rows_known,
        CASE WHEN is_known THEN CAST(:missing AS text[]) ELSE CAST(:terms AS text[]) END AS asked
    FROM (
        SELECT word_revision, generation, tail_rows,
            generation = :generation AND word_revision - tail_rows = :epoch AND tail_rows >= :rows
                AS is_known
        FROM word_index
        LEFT JOIN upkeep ON upkeep.organization_id = :organization_id
        WHERE word_index.organization_id = :organization_id
    ) AS state
) AS held
LEFT JOIN LATERAL (
    SELECT string_agg(words, '' ORDER BY number) AS words, string_agg(hashes, '' ORDER BY number) AS hashes,
        string_agg(messages, '' ORDER BY number) AS messages
    FROM word_tail
    WHERE organization_id = :organization_id AND generation = held.generation
        AND number > held.rows_known AND number <= held.tail_rows
) AS tail ON true
LEFT JOIN LATERAL (
    SELECT string_agg(int4send(octet_length(content)), '') AS sizes, string_agg(content, '') AS contents
    FROM word_block
    WHERE organization_id = :organization_id AND generation = held.generation AND term = ANY (held.asked)
) AS blocks ON true
LEFT JOIN LATERAL (
    SELECT string_agg(int4send(octet_length(content)), '') AS sizes, string_agg(content, '') AS contents
    FROM word_page
    WHERE organization_id = :organization_id AND generation = held.generation
        AND first_term = ANY (ARRAY(
            SELECT
                (SELECT first_term FROM word_page AS before
                 WHERE organization_id = :organization_id AND generation = held.generation
                    AND first_term <= given.term
                 ORDER BY first_term DESC LIMIT 1)
            FROM unnest(held.asked) AS given (term)))
) AS pages ON true
LEFT JOIN LATERAL (
    -- Pages of lengths near the last message of each row that was added to a tail, which a search would have
    -- to ask for next. Its key is in the last 12 bytes, the lowest byte first.
    SELECT ARRAY(
        SELECT ((CAST(get_byte(entry, 7) AS bigint) << 56) + (CAST(get_byte(entry, 6) AS bigint) << 48)
            + (CAST(get_byte(entry, 5) AS bigint) << 40) + (CAST(get_byte(entry, 4) AS bigint) << 32)
            + (CAST(get_byte(entry, 3) AS bigint) << 24) + (get_byte(entry, 2) << 16)
            + (get_byte(entry, 1) << 8) + get_byte(entry, 0) >> 6) + step
        FROM (
            SELECT substring(messages FROM octet_length(messages) - 11) AS entry FROM word_tail
            WHERE organization_id = :organization_id AND generation = held.generation
                AND number > held.rows_known AND number <= held.tail_rows
                AND held.rows_known > 0 AND octet_length(messages) >= 12
            ORDER BY number DESC
            LIMIT 16
        ) AS added, generate_series(-1, 1) AS step
    ) AS pages
) AS near ON true
LEFT JOIN LATERAL (
    SELECT string_agg(int8send(page), '') AS pages, string_agg(int8send(octet_length(content)), '') AS sizes,
        string_agg(content, '') AS contents
    FROM word_length
    WHERE organization_id = :organization_id AND generation = held.generation AND page = ANY (near.pages)
) AS lengths ON true;

-- postings_of_prefix --
-- Returns the same of words with a beginning.
SELECT /*sqlite:*/ words, hashes, messages /*postgres: string_agg(words, '' ORDER BY number),
    string_agg(hashes, '' ORDER BY number), string_agg(messages, '' ORDER BY number) */
FROM word_tail
WHERE organization_id = :organization_id AND generation =
    (SELECT generation FROM word_index WHERE organization_id = :organization_id)
UNION ALL
SELECT NULL, NULL, content FROM word_block
WHERE organization_id = :organization_id AND term >= :first AND term < :last
    AND generation =
        (SELECT generation FROM word_index WHERE organization_id = :organization_id)
UNION ALL
SELECT NULL, NULL, content FROM word_page
WHERE organization_id = :organization_id AND generation =
        (SELECT generation FROM word_index WHERE organization_id = :organization_id)
    AND first_term < :last AND first_term >= coalesce(
        (SELECT first_term FROM word_page AS before
         WHERE organization_id = :organization_id AND generation =
                (SELECT generation FROM word_index WHERE organization_id = :organization_id)
            AND first_term <= :first
         ORDER BY first_term DESC LIMIT 1), '');

-- postings_of_prefix_if_changed --
-- Returns the same if they are missing or the index has another revision, else nothing. For PostgreSQL
-- alone.
SELECT /*sqlite:*/ words, hashes, messages /*postgres: string_agg(words, '' ORDER BY number),
    string_agg(hashes, '' ORDER BY number), string_agg(messages, '' ORDER BY number) */
FROM word_tail
WHERE organization_id = :organization_id AND generation =
        (SELECT generation FROM word_index WHERE organization_id = :organization_id)
    AND (:is_missing = 1 OR :revision <>
        (SELECT word_revision FROM upkeep WHERE organization_id = :organization_id))
UNION ALL
SELECT NULL, NULL, content FROM word_block
WHERE organization_id = :organization_id AND term >= :first AND term < :last
    AND generation =
        (SELECT generation FROM word_index WHERE organization_id = :organization_id)
    AND (:is_missing = 1 OR :revision <>
        (SELECT word_revision FROM upkeep WHERE organization_id = :organization_id))
UNION ALL
SELECT NULL, NULL, content FROM word_page
WHERE organization_id = :organization_id AND generation =
        (SELECT generation FROM word_index WHERE organization_id = :organization_id)
    AND (:is_missing = 1 OR :revision <>
        (SELECT word_revision FROM upkeep WHERE organization_id = :organization_id))
    AND first_term < :last AND first_term >= coalesce(
        (SELECT first_term FROM word_page AS before
         WHERE organization_id = :organization_id AND generation =
                (SELECT generation FROM word_index WHERE organization_id = :organization_id)
            AND first_term <= :first
         ORDER BY first_term DESC LIMIT 1), '');

-- lengths --
-- Returns the lengths of messages of the present index, as they are stored.
SELECT page, content FROM word_length
WHERE organization_id = :organization_id AND page IN (SELECT value FROM json_each(:pages))
    AND generation = (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- lengths_together --
-- Returns the same in one row: pages, sizes and contents. For PostgreSQL alone.
SELECT string_agg(int8send(page), ''), string_agg(int8send(octet_length(content)), ''),
    string_agg(content, '')
FROM word_length
WHERE organization_id = :organization_id AND page IN (SELECT value FROM json_each(:pages))
    AND generation = (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- pages_after --
-- Returns the next pages.
SELECT first_term, content FROM word_page
WHERE organization_id = :organization_id AND first_term > :term AND generation =
    (SELECT generation FROM word_index WHERE organization_id = :organization_id)
ORDER BY first_term
LIMIT :limit;

-- first_page --
SELECT first_term, content FROM word_page
WHERE organization_id = :organization_id AND first_term = '' AND generation =
    (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- blocks_after --
-- Returns term, first key and content of the next blocks.
SELECT term, first_key, content FROM word_block
WHERE organization_id = :organization_id AND (term, first_key) > (:term, :key) AND generation =
    (SELECT generation FROM word_index WHERE organization_id = :organization_id)
ORDER BY term, first_key
LIMIT :limit;
