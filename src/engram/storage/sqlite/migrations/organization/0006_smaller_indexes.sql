-- The number of a row ends every index by itself, and orders what is equal as well as an id.
DROP INDEX conversation_created;
DROP INDEX conversation_updated;
DROP INDEX conversation_length;
DROP INDEX conversation_project;
DROP INDEX conversation_agent;
CREATE INDEX conversation_created ON conversation (organization_id, created_at)
    WHERE number < 4294967296;
CREATE INDEX conversation_updated ON conversation (organization_id, updated_at)
    WHERE number < 4294967296;
CREATE INDEX conversation_length ON conversation (organization_id, message_count)
    WHERE number < 4294967296;
CREATE INDEX conversation_project ON conversation (organization_id, project, updated_at);
CREATE INDEX conversation_agent ON conversation (organization_id, agent_id, updated_at)
    WHERE agent_id IS NOT NULL;

-- Two parts of a word index that hold the same words are merged, where it took four.
INSERT INTO message_words (message_words, rank) VALUES ('automerge', 2);
INSERT INTO window_words (window_words, rank) VALUES ('automerge', 2);
