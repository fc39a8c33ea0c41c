"""Language models behind a service: Anthropic's and OpenAI's wire formats, timeouts and retries.

No error repeats what the service sent: that may contain the prompt or the key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, assert_never, cast

import orjson

from engram import limits
from engram.clock import Clock
from engram.embedding.retry import Backoff, endpoint_url, parse_retry_after, read_bounded
from engram.errors import LanguageModelError
from engram.language import (
    AnthropicModel,
    LanguageChoice,
    LanguageModel,
    NoLanguageModel,
    OpenAIModel,
    Prompt,
)
from engram.model.value import Value

if TYPE_CHECKING:
    import httpx

ANTHROPIC_VERSION = "2023-06-01"

TRANSIENT = {408, 409, 425, 429}
"""Status codes after which a retry may succeed, beside 500 and above."""


def build_language_model(
    choice: LanguageChoice, *, key: str | None, clock: Clock
) -> LanguageModel | None:
    """Return the model that was chosen, or None; no connection is opened yet."""
    match choice:
        case AnthropicModel():
            return RemoteLanguageModel(AnthropicWire(choice), key=key, clock=clock)
        case OpenAIModel():
            return RemoteLanguageModel(OpenAIWire(choice), key=key, clock=clock)
        case NoLanguageModel():
            return None
        case _:
            assert_never(choice)


class Wire(Protocol):
    """The wire format of one kind of service."""

    @property
    def endpoint(self) -> str:
        """Return the URL to post requests to."""
        ...

    def headers(self, key: str | None) -> dict[str, str]:
        """Return the headers of every request."""
        ...

    def body(self, prompt: Prompt) -> dict[str, Any]:
        """Return the request for a prompt, to be encoded as JSON."""
        ...

    def text(self, answer: Any) -> object:
        """Return the generated text of a parsed response.

        Raises:
            KeyError, IndexError, TypeError, AttributeError: the response has another shape.
        """
        ...


class AnthropicWire(Value, kw_only=False):
    """Anthropic's Messages API."""

    choice: AnthropicModel

    @property
    def endpoint(self) -> str:
        return endpoint_url(self.choice.url, "messages")

    def headers(self, key: str | None) -> dict[str, str]:
        return {"anthropic-version": ANTHROPIC_VERSION, **({"x-api-key": key} if key else {})}

    def body(self, prompt: Prompt) -> dict[str, Any]:
        return {
            "model": self.choice.model,
            "max_tokens": prompt.tokens_max,
            "system": prompt.system,
            "messages": [{"role": "user", "content": prompt.text}],
        }

    def text(self, answer: Any) -> object:
        return "".join(part["text"] for part in answer["content"] if part.get("type") == "text")


class OpenAIWire(Value, kw_only=False):
    """OpenAI's chat completions, which most local servers speak."""

    choice: OpenAIModel

    @property
    def endpoint(self) -> str:
        return endpoint_url(self.choice.url, "chat/completions")

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

    def text(self, answer: Any) -> object:
        return answer["choices"][0]["message"]["content"]


class RemoteLanguageModel:
    """Calls a service; returns an answer or raises an error within bounded time."""

    def __init__(
        self,
        wire: Wire,
        *,
        key: str | None,
        clock: Clock,
        backoff: Backoff | None = None,
        limit_s: float = limits.LANGUAGE_S,
    ) -> None:
        self._wire = wire
        self._key = key
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._limit_s = limit_s
        self._client: httpx.AsyncClient | None = None

    async def complete(self, prompt: Prompt) -> str:
        try:
            async with asyncio.timeout(self._limit_s):
                return _answer_text(self._wire, await self._post_retrying(prompt))
        except TimeoutError as exc:
            message = f"the language model gave no answer within {self._limit_s:g} s"
            raise LanguageModelError(message) from exc

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def _post_retrying(self, prompt: Prompt) -> object:
        body = self._wire.body(prompt)
        for attempt in range(limits.LANGUAGE_ATTEMPTS_MAX - 1):
            try:
                return await self._post(body)
            except LanguageModelError as exc:
                if not exc.is_passing:
                    raise
                await self._backoff.wait(attempt, retry_after_s=exc.retry_after_s)
        return await self._post(body)

    async def _post(self, body: Mapping[str, Any]) -> object:
        """Return the parsed response.

        Raises:
            LanguageModelError: the service is unreachable, refuses, fails, or does not send JSON.
        """
        import httpx  # noqa: PLC0415 imported with the first call

        try:
            async with self._connected().stream("POST", self._wire.endpoint, json=body) as response:
                content = await read_bounded(
                    response.aiter_bytes(),
                    bytes_max=limits.LANGUAGE_RESPONSE_BYTES_MAX,
                    too_large=LanguageModelError("the answer of the language model is too large"),
                )
        except httpx.HTTPError as exc:
            message = f"the language model cannot be reached: {type(exc).__name__}"
            raise LanguageModelError(message, is_passing=True) from exc
        self._check_status(response)
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as exc:
            raise LanguageModelError("the language model did not answer with JSON") from exc

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            import httpx  # noqa: PLC0415 imported with the first call

            self._client = httpx.AsyncClient(
                headers=self._wire.headers(self._key),
                timeout=httpx.Timeout(limits.LANGUAGE_S, connect=limits.REMOTE_CONNECT_S),
            )
        return self._client

    def _check_status(self, response: httpx.Response) -> None:
        status = response.status_code
        if response.is_success:
            return
        raise LanguageModelError(
            f"the language model answered with status {status}",
            is_passing=status in TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR,
            retry_after_s=parse_retry_after(
                response.headers.get("retry-after"), now=self._clock.now()
            ),
        )


def _answer_text(wire: Wire, answer: object) -> str:
    """Return the generated text of a response, which may have any shape.

    Raises:
        LanguageModelError: it contains no text.
    """
    try:
        text = wire.text(cast("Mapping[str, Any]", answer))
    except (KeyError, IndexError, TypeError, AttributeError) as exc:
        raise LanguageModelError("the language model answered in an unknown format") from exc
    stripped = text.strip() if isinstance(text, str) else ""
    if not stripped:
        raise LanguageModelError("the language model answered without text")
    return stripped
