"""An embedder behind any service compatible with OpenAI's `/v1/embeddings`.

httpx, orjson and NumPy are imported with the first call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from engram import limits
from engram.clock import Clock
from engram.embedding.port import EmbedderIdentity, check_vectors, unit_rows
from engram.embedding.registry import prefixes_of
from engram.embedding.retry import (
    Backoff,
    CircuitBreaker,
    endpoint_url,
    parse_retry_after,
    read_bounded,
)
from engram.errors import EmbedderUnavailableError, InvalidRequestError, InvalidVectorError
from engram.model.value import Value

if TYPE_CHECKING:
    import httpx

    from engram.embedding.port import Vector, Vectors

PROBE = "How long are your vectors?"

REFUSED = {400, 413, 422}
"""Status codes for texts that a service will not embed, however often they are sent."""


class RemoteAddress(Value, kw_only=False):
    """The URL of a service, the model to use and the API key."""

    url: str
    model: str
    key: str | None = None

    @property
    def endpoint(self) -> str:
        """Return the URL to post requests to."""
        return endpoint_url(self.url, "embeddings")


class RemoteEmbedder:
    """Embeds by calling a service, with timeouts, retries and a circuit breaker.

    The first response fixes the dimensions; a response with others is an error from then on.
    """

    def __init__(
        self,
        address: RemoteAddress,
        *,
        clock: Clock,
        backoff: Backoff | None = None,
        query_s: float = limits.REMOTE_QUERY_S,
        indexing_s: float = limits.REMOTE_INDEXING_S,
    ) -> None:
        self._address = address
        self._clock = clock
        self._breaker = CircuitBreaker(clock)
        self._backoff = backoff or Backoff()
        self._query_s = query_s
        self._indexing_s = indexing_s
        self._query_prefix, self._passage_prefix = prefixes_of(address.model)
        self._identity: EmbedderIdentity | None = None
        self._client: httpx.AsyncClient | None = None

    async def identify(self) -> EmbedderIdentity:
        return self._identity or self._identity_with((await self._probed()).shape[1])

    async def probe(self) -> None:
        await self._probed()

    async def embed_passages(self, passages: Sequence[str]) -> Vectors:
        import numpy as np

        identity = await self.identify()
        prefixed = [self._passage_prefix + text for text in passages]
        async with self._blaming_texts_or_service():
            rows = [await self._embed_bisecting(batch) for batch in _batches(prefixed)]
        return np.concatenate([np.zeros((0, identity.dimensions), dtype=np.float32), *rows])

    async def embed_query(self, query: str) -> Vector:
        # No retries: a search can do without the vector and must not wait.
        start = _truncated(self._query_prefix + query)
        async with self._blaming_texts_or_service():
            return (await self._embed([start], limit_s=self._query_s))[0]

    def count_tokens(self, text: str) -> int:
        return _token_bound(text)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    @asynccontextmanager
    async def _blaming_texts_or_service(self) -> AsyncGenerator[None]:
        """On a refusal, probe the service: if that fails too, the texts are not to blame.

        Raises:
            EmbedderUnavailableError: the service refuses every text.
        """
        try:
            yield
        except (InvalidRequestError, InvalidVectorError):
            await self._probed()
            raise

    async def _probed(self) -> Vectors:
        try:
            return await self._embed([PROBE], limit_s=self._query_s)
        except (InvalidRequestError, InvalidVectorError) as exc:
            raise EmbedderUnavailableError(
                f"the embedding service returns no vector for any text: {exc.message}"
            ) from exc

    async def _embed_bisecting(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of a batch, bisecting a batch that is refused."""
        import numpy as np

        try:
            return await self._embed_retrying(texts)
        except InvalidRequestError:
            if len(texts) == 1:
                raise
        middle = len(texts) // 2
        halves = [await self._embed_bisecting(half) for half in (texts[:middle], texts[middle:])]
        return np.concatenate(halves)

    async def _embed_retrying(self, texts: Sequence[str]) -> Vectors:
        for attempt in range(limits.REMOTE_ATTEMPTS_MAX - 1):
            try:
                return await self._embed(texts, limit_s=self._indexing_s)
            except EmbedderUnavailableError as exc:
                if self._breaker.is_open:
                    # The texts go back to the queue; a later call probes the service.
                    raise
                await self._backoff.wait(attempt, retry_after_s=exc.retry_after_s)
        return await self._embed(texts, limit_s=self._indexing_s)

    async def _embed(self, texts: Sequence[str], *, limit_s: float) -> Vectors:
        with self._breaker.attempt():
            try:
                async with asyncio.timeout(limit_s):
                    raw = _parse_vectors(await self._post(texts), count=len(texts))
            except TimeoutError as exc:
                raise EmbedderUnavailableError(
                    f"the embedding service gave no answer within {limit_s:g} s"
                ) from exc
        vectors = unit_rows(raw)
        self._identity = self._identity or self._identity_with(vectors.shape[1])
        check_vectors(vectors, self._identity, count=len(texts))
        return vectors

    async def _post(self, texts: Sequence[str]) -> bytes:
        """Return the body of the service's response.

        Raises:
            EmbedderUnavailableError: it cannot be reached, fails or is misconfigured.
            InvalidRequestError: it refuses these texts.
            InvalidVectorError: its response is too large.
        """
        import httpx

        request = {"model": self._address.model, "input": list(texts)}
        try:
            async with self._connected().stream(
                "POST", self._address.endpoint, json=request
            ) as response:
                body = await read_bounded(
                    response.aiter_bytes(),
                    bytes_max=limits.REMOTE_RESPONSE_BYTES_MAX,
                    too_large=InvalidVectorError(
                        "the answer of the embedding service is too large"
                    ),
                )
        except httpx.HTTPError as exc:
            raise EmbedderUnavailableError(
                f"the embedding service cannot be reached: {type(exc).__name__}"
            ) from exc
        self._check_status(response)
        return body

    def _connected(self) -> httpx.AsyncClient:
        if self._client is None:
            import httpx

            key = self._address.key
            self._client = httpx.AsyncClient(
                headers={"authorization": f"Bearer {key}"} if key else {},
                timeout=httpx.Timeout(limits.REMOTE_INDEXING_S, connect=limits.REMOTE_CONNECT_S),
            )
        return self._client

    def _check_status(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        if response.status_code in REFUSED:
            raise InvalidRequestError(
                f"the embedding service refused a text with status {response.status_code}"
            )
        raise EmbedderUnavailableError(
            f"the embedding service answered with status {response.status_code}",
            retry_after_s=parse_retry_after(
                response.headers.get("retry-after"), now=self._clock.now()
            ),
        )

    def _identity_with(self, dimensions: int) -> EmbedderIdentity:
        return EmbedderIdentity(
            name=self._address.model,
            revision="remote",
            dimensions=dimensions,
            max_tokens=limits.REMOTE_TOKENS_MAX,
            query_prefix=self._query_prefix,
            passage_prefix=self._passage_prefix,
            pooling="remote",
        )


def _token_bound(text: str) -> int:
    """Return an upper bound of the tokens that any common tokenizer makes of a text."""
    return (len(text.encode(errors="surrogatepass")) + 1) // 2


def _truncated(text: str) -> str:
    """Truncate a text to what `_token_bound` allows within the service's limit."""
    start = text.encode(errors="surrogatepass")[: 2 * limits.REMOTE_TOKENS_MAX]
    return start.decode(errors="ignore")


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the texts in batches within the bounds of one request."""
    batch = list[str]()
    size = 0
    for text in texts:
        length = len(text.encode(errors="surrogatepass"))
        if batch and (
            len(batch) == limits.REMOTE_BATCH_TEXTS_MAX
            or size + length > limits.REMOTE_BATCH_BYTES_MAX
        ):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += length
    if batch:
        yield batch


def _parse_vectors(body: bytes, *, count: int) -> Vectors:
    """Parse a response into rows in the order of the texts.

    Raises:
        InvalidVectorError: it does not contain `count` vectors of equal length.
    """
    import numpy as np

    rows = [_row(item) for item in sorted(_items(body), key=_index)]
    lengths = {len(row) for row in rows}
    if len(rows) != count or len(lengths) != 1:
        raise InvalidVectorError(f"expected {count:,} vectors of equal length")
    if not 0 < lengths.pop() <= limits.VECTOR_DIMENSIONS_MAX:
        raise InvalidVectorError(f"a vector has 1 to {limits.VECTOR_DIMENSIONS_MAX:,} dimensions")
    return np.stack(rows)


def _items(body: bytes) -> list[dict[str, Any]]:
    import orjson

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


def _row(item: dict[str, Any]) -> Vector:
    import numpy as np

    try:
        with np.errstate(over="ignore"):
            # Overflow becomes infinite, and is refused later.
            row = np.array(item["embedding"], dtype=np.float32)
    except (KeyError, TypeError, ValueError) as exc:
        raise InvalidVectorError("the embedding service returned an invalid vector") from exc
    if row.ndim != 1:
        raise InvalidVectorError("the embedding service returned an invalid vector")
    return row
