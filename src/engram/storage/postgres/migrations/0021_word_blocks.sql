-- Posting lists in blocks, instead of a row for each word of each message. They are packed by the program,
-- so every organisation is indexed again when it is opened next.
DROP TABLE word_posting;
DROP TABLE word_length;

ALTER TABLE word_index
    ADD COLUMN tail_rows bigint NOT NULL DEFAULT 0,
    ADD COLUMN tail_words bigint NOT NULL DEFAULT 0,
    ADD COLUMN next_tail_rows bigint NOT NULL DEFAULT 0,
    ADD COLUMN next_tail_words bigint NOT NULL DEFAULT 0;

CREATE TABLE word_tail (
    organization_id bigint NOT NULL,
    generation      bigint NOT NULL,
    number          bigint NOT NULL,
    words           bytea  STORAGE EXTERNAL NOT NULL,
    hashes          bytea  STORAGE EXTERNAL NOT NULL,
    messages        bytea  STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (organization_id, generation, number)
) WITH (fillfactor = 75, toast_tuple_target = 8160);

CREATE TABLE word_page (
    organization_id bigint NOT NULL,
    generation      bigint NOT NULL,
    first_term      text   COLLATE "C" NOT NULL,
    content         bytea  STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (organization_id, generation, first_term)
) WITH (fillfactor = 50);

CREATE TABLE word_block (
    organization_id bigint NOT NULL,
    generation      bigint NOT NULL,
    first_key       bigint NOT NULL,
    last_key        bigint NOT NULL,
    term            text   COLLATE "C" NOT NULL,
    content         bytea  STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (organization_id, generation, term, first_key)
);

CREATE TABLE word_length (
    organization_id bigint NOT NULL,
    generation      bigint NOT NULL,
    page            bigint NOT NULL,
    content         bytea  STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (organization_id, generation, page)
);

ALTER TABLE word_tail ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON word_tail
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);
ALTER TABLE word_page ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON word_page
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);
ALTER TABLE word_block ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON word_block
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);
ALTER TABLE word_length ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY own_rows ON word_length
    USING (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint)
    WITH CHECK
        (organization_id = nullif(current_setting('engram.organization_id', true), '')::bigint);

GRANT SELECT, INSERT, UPDATE, DELETE ON word_tail, word_page, word_block, word_length TO engram_app;

-- Version 0 is older than any analyser's, and a rebuild under way had the former rows. Changing the type
-- reaches every organisation at once, past row-level security.
ALTER TABLE upkeep
    ALTER COLUMN analyser_version TYPE bigint USING 0,
    ALTER COLUMN rebuild_id TYPE text COLLATE "C" USING NULL,
    ALTER COLUMN rebuild_version TYPE bigint USING NULL,
    ALTER COLUMN rebuild_upto TYPE bigint USING NULL,
    ALTER COLUMN rebuild_until TYPE bigint USING NULL,
    ALTER COLUMN rebuild_window_words TYPE bigint USING NULL;
