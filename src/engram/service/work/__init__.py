"""Background work: queued vectors, documents to index, re-embedding, jobs of the store."""
