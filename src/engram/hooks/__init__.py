"""`engram hook`: what a coding agent runs at its events, to be captured and to be reminded.

`entry` and what it imports need only small parts of the standard library: a process is started for every
event, and an agent waits for it.
"""
