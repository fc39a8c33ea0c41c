"""In-memory vector search, exact under any filter; NumPy is imported with the first vector."""
