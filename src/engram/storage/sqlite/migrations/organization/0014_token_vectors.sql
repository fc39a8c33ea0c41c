-- The vectors of a message's tokens, beside its own; NULL: it has none.
ALTER TABLE vector ADD COLUMN tokens BLOB;
