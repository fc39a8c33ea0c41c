"""The configuration of MCP clients: where it is, how Engram is entered there, and how that is undone.

No byte is changed that is not part of an entry of Engram, and what was there before is kept.
"""
