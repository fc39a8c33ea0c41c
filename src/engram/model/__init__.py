"""The values that walk through Engram; constructing one proves that it is within its bounds."""
