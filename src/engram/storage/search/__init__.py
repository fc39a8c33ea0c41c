"""Candidates of a search, their filters, and what is read of those that are found."""
