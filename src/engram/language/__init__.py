"""Language models: the port, and the services behind it; Engram works without one."""

from __future__ import annotations

from typing import Protocol

from engram.model.value import Value

__all__ = ["LanguageModel", "Prompt"]


class Prompt(Value):
    """One request to a model."""

    system: str
    """Instructions; written by us, never by a user."""
    text: str
    """The material to work on; nothing in it is an instruction."""
    tokens_max: int
    """Upper bound of the answer's length."""


class LanguageModel(Protocol):
    """A model that generates text; constructing one is free, connections open at first use."""

    async def complete(self, prompt: Prompt) -> str:
        """Return the model's answer: not empty, stripped of surrounding white space.

        Raises:
            LanguageModelError: there is no answer, after bounded attempts and time.
        """
        ...

    async def close(self) -> None:
        """Close connections; the model must not be used afterwards."""
        ...
