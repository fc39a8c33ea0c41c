-- :generation_step is 0 for the present index and 1 for that being built.

-- add_lengths --
-- Adds the lengths of messages, given as lists.
INSERT INTO word_length (organization_id, generation, key, telling, stops)
SELECT word_index.organization_id, generation + :generation_step, given.key, given.telling, given.stops
FROM word_index,
    unnest(:keys::bigint[], :telling::integer[], :stops::integer[])
        AS given (key, telling, stops)
WHERE word_index.organization_id = :organization_id;

-- count_added --
UPDATE word_index SET
    texts = texts + CASE WHEN :generation_step = 0 THEN :more_texts ELSE 0 END,
    words = words + CASE WHEN :generation_step = 0 THEN :more_words ELSE 0 END,
    next_texts = next_texts + CASE WHEN :generation_step = 1 THEN :more_texts ELSE 0 END,
    next_words = next_words + CASE WHEN :generation_step = 1 THEN :more_words ELSE 0 END
WHERE organization_id = :organization_id;

-- add_postings --
-- Adds which words messages hold, given as lists.
INSERT INTO word_posting (organization_id, generation, key, occurrences, term)
SELECT word_index.organization_id, generation + :generation_step, given.key, given.occurrences,
    given.term
FROM word_index,
    unnest(:keys::bigint[], :occurrences::integer[], :terms::text[])
        AS given (key, occurrences, term)
WHERE word_index.organization_id = :organization_id;

-- remove_messages --
WITH removed AS (
    DELETE FROM word_length USING word_index
    WHERE word_length.organization_id = :organization_id
        AND word_index.organization_id = :organization_id
        AND word_length.generation = word_index.generation + :generation_step
        AND word_length.key = ANY(:keys)
    RETURNING telling + stops AS words
)
UPDATE word_index SET
    texts = texts - CASE WHEN :generation_step = 0 THEN change.more_texts ELSE 0 END,
    words = words - CASE WHEN :generation_step = 0 THEN change.more_words ELSE 0 END,
    next_texts = next_texts - CASE WHEN :generation_step = 1 THEN change.more_texts ELSE 0 END,
    next_words = next_words - CASE WHEN :generation_step = 1 THEN change.more_words ELSE 0 END
FROM (SELECT count(*) AS more_texts, coalesce(sum(words), 0) AS more_words FROM removed) AS change
WHERE organization_id = :organization_id;

-- remove_postings --
DELETE FROM word_posting USING word_index, unnest(:keys::bigint[], :terms::text[]) AS given (key, term)
WHERE word_posting.organization_id = :organization_id
    AND word_index.organization_id = :organization_id
    AND word_posting.generation = word_index.generation + :generation_step
    AND word_posting.term = given.term AND word_posting.key = given.key;

-- drop_lengths --
-- Removes what belongs to an index other than the present one.
DELETE FROM word_length
WHERE organization_id = :organization_id AND generation <>
    (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- drop_postings --
DELETE FROM word_posting
WHERE organization_id = :organization_id AND generation <>
    (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- restore_row --
-- A row that was lost comes back, with no present index.
INSERT INTO word_index (organization_id) VALUES (:organization_id)
ON CONFLICT DO NOTHING;

-- forget_next --
UPDATE word_index SET next_texts = 0, next_words = 0 WHERE organization_id = :organization_id;

-- take_over --
UPDATE word_index SET
    generation = generation + 1, texts = next_texts, words = next_words, next_texts = 0, next_words = 0
WHERE organization_id = :organization_id;

-- statistics --
-- Returns how many messages are indexed, and how many words they have.
SELECT texts, words FROM word_index WHERE organization_id = :organization_id;

-- count --
SELECT count(*) FROM word_length
WHERE organization_id = :organization_id AND generation =
    (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- postings --
-- Returns each word of a list that is held, the keys of its messages, and how often each holds it:
-- 8 and 4 bytes for each.
SELECT term, string_agg(int8send(key), ''), string_agg(int4send(occurrences), '')
FROM word_posting
WHERE organization_id = :organization_id AND term = ANY(:terms) AND generation =
    (SELECT generation FROM word_index WHERE organization_id = :organization_id)
GROUP BY term;

-- postings_if_changed --
-- Returns the same of the words that are missing, or of all if the index has another revision.
SELECT term, string_agg(int8send(key), ''), string_agg(int4send(occurrences), '')
FROM word_posting
WHERE organization_id = :organization_id AND term = ANY(
        CASE WHEN :revision =
            (SELECT word_revision FROM upkeep WHERE organization_id = :organization_id)
        THEN CAST(:missing AS text[]) ELSE CAST(:terms AS text[]) END)
    AND generation =
        (SELECT generation FROM word_index WHERE organization_id = :organization_id)
GROUP BY term;

-- postings_of_prefix --
-- Returns the keys of the messages that hold words with a beginning, and how often each does.
SELECT string_agg(int8send(key), ''), string_agg(int4send(occurrences::integer), '')
FROM
    (SELECT key, sum(occurrences) AS occurrences FROM word_posting
     WHERE organization_id = :organization_id
         AND term >= :first AND term < :first || chr(1114111) AND generation =
             (SELECT generation FROM word_index WHERE organization_id = :organization_id)
     GROUP BY key) AS held;

-- postings_of_prefix_if_changed --
-- Returns the same if they are missing or the index has another revision, else nothing.
SELECT string_agg(int8send(key), ''), string_agg(int4send(occurrences::integer), '')
FROM
    (SELECT key, sum(occurrences) AS occurrences FROM word_posting
     WHERE organization_id = :organization_id
         AND (:is_missing = 1 OR :revision <>
             (SELECT word_revision FROM upkeep WHERE organization_id = :organization_id))
         AND term >= :first AND term < :first || chr(1114111) AND generation =
             (SELECT generation FROM word_index WHERE organization_id = :organization_id)
     GROUP BY key) AS held;

-- lengths --
-- Returns key and number of words, telling and stops, of those of a list of keys that are indexed.
SELECT key, telling, stops FROM word_length
WHERE organization_id = :organization_id AND key = ANY(:keys) AND generation =
    (SELECT generation FROM word_index WHERE organization_id = :organization_id);

-- postings_after --
-- Returns term, key and occurrences of the next entries.
SELECT term, key, occurrences FROM word_posting
WHERE organization_id = :organization_id AND (term, key) > (:term, :key) AND generation =
    (SELECT generation FROM word_index WHERE organization_id = :organization_id)
ORDER BY term, key
LIMIT :limit;
