"""Search: score candidates, rank them and pack the best into an answer within a token budget.

Every step is a pure function, except for embedding the query and reading from the store.
"""
