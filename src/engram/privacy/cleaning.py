"""Clean a text for storage: the one order in which everything that must not be kept is taken out."""

from __future__ import annotations

from engram.privacy.secrets import redact
from engram.privacy.tags import PRIVATE, without_injections, without_private

_PROMPT_CHARACTERS_MIN = 8
"""Shorter prompts (`go on`, `yes`) say nothing that could be looked for."""


def query_of_prompt(prompt: str) -> str | None:
    """Return what to look for when an agent gets a prompt; None for a command, or if it says nothing."""
    query = clean_text(prompt, redacts=True).strip()
    is_command = query.startswith("/") and not any(map(str.isspace, query))
    return None if is_command or len(query) < _PROMPT_CHARACTERS_MIN else query


def clean_text(text: str, *, redacts: bool) -> str:
    """Return a text without injections, private parts and, if `redacts`, secrets; it may be empty."""
    # Injections first: they are ours, and what they quote is not the writer's to mark as private.
    kept = without_private(without_injections(text))
    if not kept.replace(PRIVATE, "").strip():
        return ""
    return redact(kept) if redacts else kept
