"""One request to a service of language models.

Imports httpx, so it is itself imported when a service is first asked. No message holds what the
service said: it may repeat the question, or the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import orjson

from engram.clock import Clock
from engram.embedding.bounded import read_bounded
from engram.embedding.retry import parse_retry_after
from engram.errors import LanguageModelError
from engram.limits import LANGUAGE_RESPONSE_BYTES_MAX, LANGUAGE_S, REMOTE_CONNECT_S

PASSING = {408, 409, 425, 429}
"""What services answer when the same question may succeed later, beside 500 and above."""


class LanguageClient:
    """The connection to one service."""

    def __init__(self, *, endpoint: str, headers: Mapping[str, str], clock: Clock) -> None:
        self._endpoint = endpoint
        self._clock = clock
        timeout = httpx.Timeout(LANGUAGE_S, connect=REMOTE_CONNECT_S)
        self._http = httpx.AsyncClient(headers=dict(headers), timeout=timeout)

    async def ask(self, body: Mapping[str, Any]) -> object:
        """Return the service's answer.

        Raises:
            LanguageModelError: it cannot be reached, refuses, fails, or answers without JSON.
        """
        try:
            async with self._http.stream("POST", self._endpoint, json=dict(body)) as response:
                read = await read_bounded(
                    response.aiter_bytes(),
                    bytes_max=LANGUAGE_RESPONSE_BYTES_MAX,
                    too_large=LanguageModelError("the answer of the language model is too large"),
                )
        except httpx.HTTPError as exc:
            message = f"the language model cannot be reached: {type(exc).__name__}"
            raise LanguageModelError(message, is_passing=True) from exc
        self._check_status(response)
        try:
            return orjson.loads(read)
        except orjson.JSONDecodeError as exc:
            raise LanguageModelError("the language model answered with something else") from exc

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _check_status(self, response: httpx.Response) -> None:
        status = response.status_code
        if response.is_success:
            return
        asked_s = parse_retry_after(response.headers.get("retry-after"), now=self._clock.now())
        raise LanguageModelError(
            f"the language model answered with status {status}",
            is_passing=status in PASSING or status >= httpx.codes.INTERNAL_SERVER_ERROR,
            retry_after_s=asked_s,
        )
