"""Engram over the Model Context Protocol: HTTP, legacy SSE, stdio, and the relay between them."""
