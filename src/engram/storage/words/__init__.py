"""The stored words of messages and windows, and how a word index is rebuilt."""
