"""Client of an embedding service: one request, and the parsing of its response.

Imports httpx and NumPy, so it is itself imported with the first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import httpx
import numpy as np
import orjson

from engram.clock import Clock
from engram.embedding.retry import parse_retry_after, read_bounded
from engram.errors import EmbedderUnavailableError, InvalidRequestError, InvalidVectorError
from engram.limits import (
    REMOTE_CONNECT_S,
    REMOTE_INDEXING_S,
    REMOTE_RESPONSE_BYTES_MAX,
    VECTOR_DIMENSIONS_MAX,
)

if TYPE_CHECKING:
    from engram.embedding.port import Vectors

REFUSED = {400, 413, 422}
"""Status codes for texts that a service will not embed, however often they are sent."""


class EmbeddingsClient:
    """HTTP client of one service."""

    def __init__(self, *, endpoint: str, model: str, key: str | None, clock: Clock) -> None:
        self._endpoint = endpoint
        self._model = model
        self._clock = clock
        headers = {"authorization": f"Bearer {key}"} if key else {}
        timeout = httpx.Timeout(REMOTE_INDEXING_S, connect=REMOTE_CONNECT_S)
        self._http = httpx.AsyncClient(headers=headers, timeout=timeout)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return the service's vector for each text, not yet of unit length.

        Raises:
            EmbedderUnavailableError: it cannot be reached, fails or is misconfigured.
            InvalidRequestError: it refuses these texts.
            InvalidVectorError: its response contains no vectors.
        """
        request = {"model": self._model, "input": list(texts)}
        try:
            async with self._http.stream("POST", self._endpoint, json=request) as response:
                body = await read_bounded(
                    response.aiter_bytes(),
                    bytes_max=REMOTE_RESPONSE_BYTES_MAX,
                    too_large=InvalidVectorError(
                        "the answer of the embedding service is too large"
                    ),
                )
        except httpx.HTTPError as exc:
            raise EmbedderUnavailableError(
                f"the embedding service cannot be reached: {type(exc).__name__}"
            ) from exc
        self._check_status(response)
        return _vectors(body, count=len(texts))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    def _check_status(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        if response.status_code in REFUSED:
            raise InvalidRequestError(
                f"the embedding service refused a text with status {response.status_code}"
            )
        retry_after_s = parse_retry_after(
            response.headers.get("retry-after"), now=self._clock.now()
        )
        raise EmbedderUnavailableError(
            f"the embedding service answered with status {response.status_code}",
            retry_after_s=retry_after_s,
        )


def _vectors(body: bytes, *, count: int) -> Vectors:
    """Parse a response into rows in the order of the texts."""
    rows = [_row(item) for item in sorted(_items(body), key=_index)]
    lengths = {len(row) for row in rows}
    if len(rows) != count or len(lengths) != 1:
        raise InvalidVectorError(f"expected {count:,} vectors of equal length")
    if not 0 < lengths.pop() <= VECTOR_DIMENSIONS_MAX:
        raise InvalidVectorError(f"a vector has 1 to {VECTOR_DIMENSIONS_MAX:,} dimensions")
    return np.stack(rows)


def _items(body: bytes) -> list[dict[str, Any]]:
    try:
        items = orjson.loads(body)["data"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as exc:
        raise InvalidVectorError("the embedding service answered in an unknown format") from exc
    if not isinstance(items, list):
        raise InvalidVectorError("the embedding service answered in an unknown format")
    found = cast("list[object]", items)
    if not all(isinstance(item, dict) for item in found):
        raise InvalidVectorError("the embedding service answered in an unknown format")
    return cast("list[dict[str, Any]]", found)


def _index(item: dict[str, Any]) -> int:
    index = item.get("index", 0)
    return index if isinstance(index, int) else 0


def _row(item: dict[str, Any]) -> Vectors:
    try:
        with np.errstate(over="ignore"):
            # Overflow becomes infinite, and is refused later.
            row = np.array(item["embedding"], dtype=np.float32)
    except (KeyError, TypeError, ValueError) as exc:
        raise InvalidVectorError("the embedding service returned an invalid vector") from exc
    if row.ndim != 1:
        raise InvalidVectorError("the embedding service returned an invalid vector")
    return row
