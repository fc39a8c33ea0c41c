"""Stored vectors, their models, and the queue of texts that wait for them."""
