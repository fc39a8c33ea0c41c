-- Documents are leased as all background work is: claimed from a moment on, with a count of attempts.
ALTER TABLE document ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE document ADD COLUMN available_at INTEGER NOT NULL DEFAULT 0;
