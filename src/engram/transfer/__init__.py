"""What enters or leaves a store: organisations moved between databases, memories as Markdown files."""
