"""A language model behind a service, asked with time limits and few retries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from engram.clock import Clock
from engram.embedding.retry import Backoff
from engram.errors import LanguageModelError
from engram.language.port import Prompt
from engram.language.wires import Wire, read_answer
from engram.limits import LANGUAGE_ATTEMPTS_MAX, LANGUAGE_S

if TYPE_CHECKING:
    from engram.language.remote_call import LanguageClient


class RemoteLanguageModel:
    """Asks a service; whatever it does, an answer or an error comes within bounded time."""

    def __init__(
        self,
        wire: Wire,
        *,
        key: str | None,
        clock: Clock,
        backoff: Backoff | None = None,
        limit_s: float = LANGUAGE_S,
    ) -> None:
        self._wire = wire
        self._key = key
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._limit_s = limit_s
        self._client: LanguageClient | None = None

    async def complete(self, prompt: Prompt) -> str:
        try:
            async with asyncio.timeout(self._limit_s):
                return read_answer(self._wire, await self._ask(prompt))
        except TimeoutError as exc:
            message = f"the language model gave no answer within {self._limit_s:g} s"
            raise LanguageModelError(message) from exc

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _ask(self, prompt: Prompt) -> object:
        body = self._wire.body(prompt)
        for attempt in range(LANGUAGE_ATTEMPTS_MAX - 1):
            try:
                return await self._connected().ask(body)
            except LanguageModelError as exc:
                if not exc.is_passing:
                    raise
                await self._backoff.wait(attempt, asked_s=exc.retry_after_s)
        return await self._connected().ask(body)

    def _connected(self) -> LanguageClient:
        if self._client is None:
            from engram.language.remote_call import LanguageClient  # noqa: PLC0415 brings httpx

            self._client = LanguageClient(
                endpoint=self._wire.endpoint,
                headers=self._wire.headers(self._key),
                clock=self._clock,
            )
        return self._client
