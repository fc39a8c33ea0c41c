"""What search has to do without, in words."""

from __future__ import annotations

_SENTENCES = {"words_only": "Search is by words only: there is no embedder."}


def explain_degraded(name: str) -> str:
    """Return a sentence for one entry of `degraded`."""
    return _SENTENCES.get(name, f"Search is degraded: {name}.")
