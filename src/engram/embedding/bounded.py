"""Read the answer of a service without trusting its length."""

from __future__ import annotations

from collections.abc import AsyncIterable

from engram.errors import EngramError


async def read_bounded(
    chunks: AsyncIterable[bytes], *, bytes_max: int, too_large: EngramError
) -> bytes:
    """Return the body of an answer.

    Raises:
        EngramError: `too_large`, when it is longer than `bytes_max`.
    """
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > bytes_max:
            raise too_large
    return bytes(body)
