"""Immutable values shared by all layers; a request is validated when it is constructed."""
