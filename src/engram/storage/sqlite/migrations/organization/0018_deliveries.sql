-- What was shown to agents without their asking; the newest rows stay.
CREATE TABLE delivery (
    at              INTEGER PRIMARY KEY,                -- one microsecond later when taken
    organization_id INTEGER NOT NULL,
    client          TEXT    NOT NULL,
    session         TEXT    NOT NULL,
    event           TEXT    NOT NULL,
    query           TEXT,                               -- its digest; NULL at the start of a session
    shown           TEXT    NOT NULL,                   -- JSON list of ids
    bytes           INTEGER NOT NULL,
    tokens          INTEGER NOT NULL
) STRICT;
