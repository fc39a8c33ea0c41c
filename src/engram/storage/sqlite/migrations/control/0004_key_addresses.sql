-- The addresses that keys were last used from, so that a new one can be told from a known one.
CREATE TABLE key_address (
    organization_id TEXT    NOT NULL REFERENCES organization (organization_id) ON DELETE CASCADE,
    key_id          TEXT    NOT NULL REFERENCES api_key (key_id) ON DELETE CASCADE,
    address         TEXT    NOT NULL,
    seen_at         INTEGER NOT NULL,
    PRIMARY KEY (organization_id, key_id, address)
) STRICT, WITHOUT ROWID;

CREATE INDEX key_address_key ON key_address (key_id);
