"""Sessions and memories that other programs keep: where they lie, and readers of their formats."""
