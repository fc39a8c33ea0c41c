"""Erase what is stored, in steps, so that nothing of it is left in any row or file."""
