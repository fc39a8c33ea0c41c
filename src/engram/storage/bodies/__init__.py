"""The rows of documents below their memories: places, chunks and sizes."""
