"""Retrieval quality: evaluation sets, what is found of their evidence, and the baseline."""
