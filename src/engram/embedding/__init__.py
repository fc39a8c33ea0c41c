"""Embedding texts: the port, the registry of models, and the embedders behind the port."""
