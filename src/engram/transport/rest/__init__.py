"""Engram over REST: the routes under `/api/v1` and `/admin`, and the document that describes them."""
