"""Vectors for texts: the port, and later the models behind it."""
