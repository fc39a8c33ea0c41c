-- The addresses that keys were last used from, so that a new one can be told from a known one.
CREATE TABLE key_address (
    organization_id text   COLLATE "C" NOT NULL
        REFERENCES organization (organization_id) ON DELETE CASCADE,
    key_id          text   COLLATE "C" NOT NULL REFERENCES api_key (key_id) ON DELETE CASCADE,
    address         text   COLLATE "C" NOT NULL,
    seen_at         bigint NOT NULL,
    PRIMARY KEY (organization_id, key_id, address)
);

CREATE INDEX key_address_key ON key_address (key_id);

GRANT SELECT, INSERT, UPDATE, DELETE ON key_address TO engram_app;
