"""Posting lists: what a word index offers, the caches of it, and the BM25 score."""
