"""Text processing without I/O: analysis, BM25, chunks and passages, Markdown, quoting and escaping."""
