"""What Engram asks of a language model: an instruction and a text in, words out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One question to a model."""

    system: str
    """What the model is to do; written by us, never by a user."""
    text: str
    """What it is to do that with; whatever stands in it is material."""
    tokens_max: int
    """Length of the answer at most."""


class LanguageModel(Protocol):
    """A model that writes; constructing one is free, services are asked at first use."""

    async def complete(self, prompt: Prompt) -> str:
        """Return what the model writes: not empty, without white space around it.

        Raises:
            LanguageModelError: there is no answer, after bounded attempts and time.
        """
        ...

    async def close(self) -> None:
        """Let go of connections; the model is not used afterwards."""
        ...
