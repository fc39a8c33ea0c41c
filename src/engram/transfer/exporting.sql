-- Pages of what an export reads, in the order of storing; conversations have numbers below 2^32 = 4294967296.

-- last_numbers --
-- Returns the highest numbers of conversations and memories.
SELECT
    (SELECT coalesce(max(number), 0) FROM conversation
     WHERE organization_id = :organization_id AND number < 4294967296),
    (SELECT coalesce(max(number), 0) FROM memory WHERE organization_id = :organization_id);

-- next_conversations --
-- Returns number, whether it is the default one, messages and bytes. The conditions are put in from below.
SELECT number, is_default, message_count, content_bytes FROM conversation
WHERE organization_id = :organization_id AND number > :after AND number <= :last
    AND number < 4294967296 AND number NOT IN
        (SELECT conversation FROM leaving WHERE organization_id = :organization_id) /*conditions*/
ORDER BY number
LIMIT :limit;

-- next_memories --
-- Returns the numbers of memories. The conditions are put in from below.
SELECT number FROM memory
WHERE organization_id = :organization_id AND number > :after AND number <= :last /*conditions*/
ORDER BY number
LIMIT :limit;

-- in_project --
AND project = :project

-- changed_since --
AND updated_at >= :since

-- stored_before --
AND created_at < :before

-- is_note --
AND document_id IS NULL

-- is_document --
AND document_id IS NOT NULL

-- is_of_source --
AND source = :subject

-- next_sizes --
-- Returns the characters of the messages with keys `first` to `last`, in order.
SELECT characters FROM message
WHERE organization_id = :organization_id AND key BETWEEN :first AND :last
ORDER BY key
LIMIT :limit;

-- captured_in --
-- Returns conversation, sequence and identity of captured messages of the conversations of a JSON list.
SELECT conversation, sequence, identity FROM captured_message
WHERE +organization_id = :organization_id
    AND conversation IN (SELECT value FROM json_each(:numbers))
    AND sequence BETWEEN :first AND :last;

-- next_relations --
-- Returns source, target, type, strength and time of relations between memories up to a number.
SELECT source, target, relation_type, strength, created_at FROM relation
WHERE organization_id = :organization_id AND source <= :last AND target <= :last
    AND (source, target, relation_type) > (:source, :target, :relation_type)
ORDER BY source, target, relation_type
LIMIT :limit;

-- next_feedback --
-- Returns the columns of feedback, and the id of its memory.
SELECT feedback.memory, feedback.number, memory.id, helpful, event_id, failure_class, actor,
    feedback.created_at
FROM feedback JOIN memory
    ON memory.organization_id = :organization_id AND memory.number = feedback.memory
WHERE feedback.organization_id = :organization_id AND feedback.memory <= :last
    AND (feedback.memory, feedback.number) > (:memory, :number)
ORDER BY feedback.memory, feedback.number
LIMIT :limit;

-- next_tombstones --
SELECT id, sha256, removed_at, actor FROM tombstone
WHERE organization_id = :organization_id AND id > :after
    AND removed_at >= :since AND removed_at < :before
ORDER BY id
LIMIT :limit;

-- next_forgotten --
SELECT id, forgotten_at, actor FROM forgotten_session
WHERE organization_id = :organization_id AND id > :after
    AND forgotten_at >= :since AND forgotten_at < :before
ORDER BY id
LIMIT :limit;
