"""What was deleted and can be restored: its rows, kept apart from all that is read and searched."""
