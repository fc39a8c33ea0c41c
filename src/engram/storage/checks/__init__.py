"""Verification of a store, and repair of what can be derived again."""
