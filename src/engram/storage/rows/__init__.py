"""Statements, connections, the layout of row keys, and caches of rows."""
