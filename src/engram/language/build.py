"""Builds the language model that the operator chose; nothing is asked yet."""

from __future__ import annotations

from typing import assert_never

from engram.clock import Clock
from engram.language.choice import AnthropicModel, LanguageChoice, NoLanguageModel, OpenAIModel
from engram.language.port import LanguageModel
from engram.language.remote import RemoteLanguageModel
from engram.language.wires import AnthropicWire, OpenAIWire


def build_language_model(
    choice: LanguageChoice, *, key: str | None, clock: Clock
) -> LanguageModel | None:
    """Return the model of a choice, None where none is chosen."""
    match choice:
        case AnthropicModel():
            return RemoteLanguageModel(AnthropicWire(choice), key=key, clock=clock)
        case OpenAIModel():
            return RemoteLanguageModel(OpenAIWire(choice), key=key, clock=clock)
        case NoLanguageModel():
            return None
        case _:
            assert_never(choice)
