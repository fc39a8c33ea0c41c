"""Engram: memory for AI agents, kept verbatim and found again by meaning and by word."""

__version__ = "0.1.0"
__all__ = ["__version__"]
