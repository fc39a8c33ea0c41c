"""Texts as they are stored: compressed, in pieces, and proved by their checksums."""
