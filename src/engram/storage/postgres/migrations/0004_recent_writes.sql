-- A mark for each of the last writes, the newest first. Who was cut off while a transaction was
-- committed finds out by it what has become of that: the numbers of transactions do not tell, for a
-- server that takes over without having seen one gives its number to another.
ALTER TABLE meta ADD COLUMN recent_writes bigint[] NOT NULL DEFAULT '{}';

-- The same for the tables that are no organisation's; whoever writes there holds its only row.
CREATE TABLE control_state (
    number        bigint   PRIMARY KEY CHECK (number = 1),
    revision      bigint   NOT NULL DEFAULT 0,
    recent_writes bigint[] NOT NULL DEFAULT '{}'
) WITH (fillfactor = 10);

INSERT INTO control_state (number) VALUES (1);

GRANT SELECT, UPDATE ON control_state TO engram_app;
