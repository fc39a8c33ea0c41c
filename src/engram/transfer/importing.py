"""Store an export in an organisation, as its bytes arrive.

Every block is verified before anything of it is stored, and every batch is one transaction: an import that was
killed is completed by repeating it, which finds what is here and stores the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import assert_never

from engram.errors import InvalidRequestError
from engram.limits import MESSAGE_BYTES_MAX
from engram.model.export import ImportReceipt
from engram.model.value import replace
from engram.transfer.compression import expand_stream
from engram.transfer.export_format import (
    AnyLine,
    BodyLine,
    CheckLine,
    ConversationLine,
    Decoder,
    DocumentLine,
    EpisodeLine,
    FeedbackLine,
    ForgottenLine,
    Header,
    Manifest,
    MemoryLine,
    MessageLine,
    MoreLine,
    ProjectLine,
    RelationLine,
    TextLine,
    TombstoneLine,
    VersionLine,
)
from engram.transfer.import_conversations import ConversationImport
from engram.transfer.import_memories import MemoryImport
from engram.transfer.import_target import Target
from engram.transfer.import_ties import TieImport

Begun = Callable[[Header], Awaitable[None]]
"""Called with the header, before anything is stored."""


async def import_bytes(
    target: Target, body: AsyncIterator[bytes], *, begun: Begun
) -> ImportReceipt:
    """Store an export, compressed or not; what is here already is not stored again.

    Raises:
        InvalidRequestError: it is no export, or damaged or incomplete; what came before is stored.
        QuotaExceededError: the quota is used up; what came before is stored.
    """
    decoder, importer = Decoder(), Importer(target)
    is_begun = False
    try:
        async for data in expand_stream(body):
            blocks = decoder.feed(data)
            while (block := await asyncio.to_thread(next, blocks, None)) is not None:
                if decoder.header is not None and not is_begun:
                    is_begun = True
                    await begun(decoder.header)
                await importer.add(block)
        decoder.finish()
    except InvalidRequestError:
        await importer.flush()  # All that was taken is verified.
        raise
    await importer.flush()
    keys = 0 if decoder.header is None else len(decoder.header.keys)
    return target.outcome.receipt(keys=keys)


async def verify_bytes(body: AsyncIterator[bytes]) -> dict[str, int]:
    """Read an export to its end and store nothing; return how many lines of each type it has.

    Raises:
        InvalidRequestError: it is no export, or damaged or incomplete.
    """
    decoder = Decoder()
    async for data in expand_stream(body):
        blocks = decoder.feed(data)
        while await asyncio.to_thread(next, blocks, None) is not None:
            continue  # It was verified, which is all that is asked.
    decoder.finish()
    return decoder.counts


class Importer:
    """Sorts lines to what stores them."""

    def __init__(self, target: Target) -> None:
        self._conversations = ConversationImport(target)
        self._memories = MemoryImport(target)
        self._ties = TieImport(target)
        self._open: TextLine | None = None
        """A line with a text that the next lines may continue."""
        self._parts = list[str]()
        self._characters = 0

    async def add(self, lines: Sequence[AnyLine]) -> None:
        """Store lines that were verified."""
        for line in lines:
            if isinstance(line, MoreLine):
                self._continue(line)
                continue
            await self._close()
            if isinstance(line, TextLine):
                self._open, self._parts = line, [line.content or ""]
                self._characters = 0
            else:
                await self._put(line)

    async def flush(self) -> None:
        """Store what was collected."""
        await self._close()
        await self._flush(None)

    def _continue(self, line: MoreLine) -> None:
        self._characters += len(line.content)
        if self._open is None or self._characters > MESSAGE_BYTES_MAX:
            raise InvalidRequestError("a text is longer than any that is stored", field="export")
        self._parts.append(line.content)

    async def _close(self) -> None:
        line, self._open = self._open, None
        if line is None:
            return
        if len(self._parts) > 1:
            line = replace(line, content="".join(self._parts))
        self._parts = []
        await self._put(line)

    async def _put(self, line: AnyLine) -> None:
        match line:
            case ConversationLine():
                await self._flush(self._conversations)
                await self._conversations.begin(line)
            case MessageLine():
                await self._conversations.add(line)
            case MemoryLine():
                await self._flush(self._memories)
                await self._memories.begin(line)
            case VersionLine():
                self._memories.add_version(line)
            case DocumentLine():
                await self._memories.begin_document(line)
            case BodyLine():
                await self._memories.add_body(line)
            case (
                EpisodeLine() | RelationLine() | FeedbackLine() | TombstoneLine() | ForgottenLine()
            ):
                await self._flush(self._ties)
                await self._ties.add(line)
            case ProjectLine() | CheckLine() | Manifest() | MoreLine():
                pass
            case _:
                assert_never(line)

    async def _flush(self, used: object) -> None:
        """Store what the others have collected: later lines may refer to it."""
        for each in (self._conversations, self._memories, self._ties):
            if each is not used:
                await each.flush()
