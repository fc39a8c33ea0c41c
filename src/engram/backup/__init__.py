"""Backups of a store: made, listed, pruned and restored; each is a manifest and the objects it names."""
