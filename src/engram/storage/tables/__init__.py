"""The tables that every database of Engram has, and what is done with their rows."""
