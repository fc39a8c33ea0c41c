"""Memories, their versions, relations, feedback and episodes."""
