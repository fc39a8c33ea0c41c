"""Compress and expand streams as zstd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import zstandard

from engram.errors import InvalidRequestError
from engram.limits import (
    EXPORT_BLOCK_BYTES,
    EXPORT_ZSTD_SLICE_BYTES,
    EXPORT_ZSTD_WINDOW_BYTES,
)

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_LEVEL = 3


async def compress_stream(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a stream as one zstd frame."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL).compressobj()
    async for data in body:
        if packed := await asyncio.to_thread(compressor.compress, data):
            yield packed
    yield compressor.flush()


async def expand_stream(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield a stream, expanded if it begins as zstd does.

    Raises:
        InvalidRequestError: it cannot be expanded.
    """
    begin, expander = b"", None
    async for data in body:
        if len(begin) < len(ZSTD_MAGIC):
            begin += data
            if len(begin) < len(ZSTD_MAGIC):
                continue
            expander = _Expander() if begin.startswith(ZSTD_MAGIC) else None
            data = begin  # noqa: PLW2901 all that has come so far
        if expander is None:
            yield data
        else:
            async for part in expander.expand(data):
                yield part
    if len(begin) < len(ZSTD_MAGIC):
        yield begin


def expand_beginning(data: bytes) -> bytes:
    """Return how a file begins, expanded if it begins as zstd does.

    Raises:
        InvalidRequestError: it cannot be expanded.
    """
    return _Expander().take(data, 0)[0] if data.startswith(ZSTD_MAGIC) else data


class _Expander:
    """Expands one stream, a little of it at a time: hostile bytes expand to thousands of times their size."""

    def __init__(self) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=EXPORT_ZSTD_WINDOW_BYTES)
        self._expanding = decompressor.decompressobj()

    async def expand(self, data: bytes) -> AsyncIterator[bytes]:
        start = 0
        while start < len(data):
            parts, start = await asyncio.to_thread(self.take, data, start)
            yield parts

    def take(self, data: bytes, start: int) -> tuple[bytes, int]:
        """Return some expanded bytes, and where the rest begins."""
        expanded, size = list[bytes](), 0
        try:
            while start < len(data) and size < EXPORT_BLOCK_BYTES:
                expanded.append(
                    self._expanding.decompress(data[start : start + EXPORT_ZSTD_SLICE_BYTES])
                )
                size += len(expanded[-1])
                start += EXPORT_ZSTD_SLICE_BYTES
        except zstandard.ZstdError as exc:
            raise InvalidRequestError(f"cannot be expanded: {exc}", field="export") from exc
        return b"".join(expanded), start
