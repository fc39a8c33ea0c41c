"""The language model port: a prompt in, text out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
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
