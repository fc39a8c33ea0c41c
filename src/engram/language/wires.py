"""The two ways in which services are asked and answer: as values, without a connection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import urlsplit, urlunsplit

from engram.errors import LanguageModelError
from engram.language.choice import AnthropicModel, OpenAIModel
from engram.language.port import Prompt

ANTHROPIC_VERSION = "2023-06-01"


class Wire(Protocol):
    """How one kind of service is asked."""

    @property
    def endpoint(self) -> str:
        """Return the URL that a question goes to."""
        ...

    def headers(self, key: str | None) -> dict[str, str]:
        """Return what every request carries."""
        ...

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """Return a question as the service reads it."""
        ...

    def words(self, answer: Any) -> str:
        """Return what a service's answer says.

        Raises:
            LanguageModelError: it says nothing.
        """
        ...


@dataclass(frozen=True, slots=True)
class AnthropicWire:
    """Anthropic's Messages API."""

    choice: AnthropicModel

    @property
    def endpoint(self) -> str:
        return _completed(self.choice.url, "messages")

    def headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": ANTHROPIC_VERSION, **({"x-api-key": key} if key else {})}

    def body(self, prompt: Prompt) -> dict[str, Any]:
        return {
            "model": self.choice.model,
            "max_tokens": prompt.tokens_max,
            "system": prompt.system,
            "messages": [{"role": "user", "content": prompt.text}],
        }

    def words(self, answer: Any) -> str:
        parts = [part["text"] for part in answer["content"] if part.get("type") == "text"]
        return _said("".join(parts))


@dataclass(frozen=True, slots=True)
class OpenAIWire:
    """OpenAI's chat completions, which most local servers speak."""

    choice: OpenAIModel

    @property
    def endpoint(self) -> str:
        return _completed(self.choice.url, "chat/completions")

    def headers(self, key: str | None) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, prompt: Prompt) -> dict[str, Any]:
        return {
            "model": self.choice.model,
            "max_tokens": prompt.tokens_max,
            "messages": [
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.text},
            ],
        }

    def words(self, answer: Any) -> str:
        return _said(answer["choices"][0]["message"]["content"])


def read_answer(wire: Wire, answer: object) -> str:
    """Return what an answer says, whatever a service may have sent.

    Raises:
        LanguageModelError: it says nothing that can be read.
    """
    try:
        return wire.words(cast("Mapping[str, Any]", answer))
    except (KeyError, IndexError, TypeError, AttributeError) as exc:
        raise LanguageModelError("the language model answered with something else") from exc


def _said(text: object) -> str:
    words = text.strip() if isinstance(text, str) else ""
    if not words:
        raise LanguageModelError("the language model gave no words")
    return words


def _completed(url: str, operation: str) -> str:
    """Return the URL of an operation; a bare host and a base path are completed."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/") or "/v1"
    path = path if path.endswith(f"/{operation}") else f"{path}/{operation}"
    return urlunsplit(parts._replace(path=path))
