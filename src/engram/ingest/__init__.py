"""Ingest: turn the texts of messages into the vectors that they are found by."""
