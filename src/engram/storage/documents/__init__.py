"""Documents: uploads, text, chunks and indexing."""
