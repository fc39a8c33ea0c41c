"""Conversations, their messages, and records, which are stored alike."""
