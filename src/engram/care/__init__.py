"""The care of memories, as steps: what is alike, what is essential, what a file holds."""
