"""What search has to do without, in words."""

from __future__ import annotations

_SENTENCES = {
    "words_only": "Search is by words only.",
    "embedder_unavailable": "The embedder cannot be asked now: `engram models verify` looks at models.",
    "instant_unavailable": "The model of instant vectors is missing: `engram models pull` gets it.",
    "embedder_changed": "The stored vectors are of another embedder: run `engram reembed`.",
    "index_lag": "The newest messages are found by words only until they are indexed.",
    "query_shortened": "The query has too many words; only the first were searched for.",
}


def explain_degraded(name: str) -> str:
    """Return a sentence for one entry of `degraded`."""
    return _SENTENCES.get(name, f"Search is degraded: {name}.")
