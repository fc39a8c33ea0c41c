"""Vectors in memory, searched exactly under any filter; NumPy loads with the first vector."""
