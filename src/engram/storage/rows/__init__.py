"""Connections, named statements, and caches of rows."""
