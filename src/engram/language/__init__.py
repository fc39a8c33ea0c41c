"""Language models: the port, and which one `ENGRAM_LANGUAGE_MODEL` chooses; Engram works without one."""

from __future__ import annotations

from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from engram.model.value import Value

__all__ = [
    "ANTHROPIC_URL",
    "FORMS",
    "AnthropicModel",
    "LanguageChoice",
    "LanguageModel",
    "NoLanguageModel",
    "OpenAIModel",
    "Prompt",
    "parse_language_choice",
]


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


FORMS = "anthropic:<model>, anthropic:<url>#<model>, openai:<url>#<model> or none"
ANTHROPIC_URL = "https://api.anthropic.com"


class AnthropicModel(Value, kw_only=False):
    """A model behind Anthropic's Messages API, or a compatible service."""

    model: str
    url: str = ANTHROPIC_URL

    def __str__(self) -> str:
        place = self.model if self.url == ANTHROPIC_URL else f"{self.url}#{self.model}"
        return f"anthropic:{place}"


class OpenAIModel(Value, kw_only=False):
    """A model behind a service compatible with OpenAI's `/v1/chat/completions`."""

    model: str
    url: str

    def __str__(self) -> str:
        return f"openai:{self.url}#{self.model}"


class NoLanguageModel(Value):
    """No language model; what needs one is disabled."""

    def __str__(self) -> str:
        return "none"


LanguageChoice: TypeAlias = AnthropicModel | OpenAIModel | NoLanguageModel


def parse_language_choice(text: str) -> LanguageChoice:
    """Parse a setting; `str` of the result is the setting again.

    Raises:
        ValueError: `text` has none of the forms.
    """
    kind, _, rest = text.partition(":")
    url, _, model = rest.rpartition("#")
    match kind:
        case "none" if text == "none":
            return NoLanguageModel()
        case "anthropic" if model and not url:
            return AnthropicModel(model)
        case "anthropic" if model and _is_http_url(url):
            return AnthropicModel(model, url)
        case "openai" if model and _is_http_url(url):
            return OpenAIModel(model, url)
        case _:
            # The error does not repeat the text: somebody may have put a key into it.
            raise ValueError(f"must be {FORMS}")


def _is_http_url(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.hostname)
