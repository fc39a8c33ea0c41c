"""Texts as they are stored: compressed, in pieces, and verified by their checksums."""
