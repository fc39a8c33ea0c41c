"""What is remembered of a document between two of its chunks, so that reading can go on there."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any

from engram.text.blocks import Block
from engram.text.headings import START, ScanState

HeadingPath = tuple[tuple[int, str], ...]
"""The level and the title of each heading that a place of a document stands under."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkerState:
    """Where in a document a chunk ended, and all that is needed to go on from there."""

    chunks: int = 0
    """How many chunks lie before."""
    offset: int = 0
    """The character with which the next chunk begins."""
    offset_bytes: int = 0
    """The same place in bytes of UTF-8."""
    read_from: int = 0
    """The character with which the text to be fed begins: a little before the next chunk."""
    read_from_bytes: int = 0
    """The same place in bytes of UTF-8."""
    path: HeadingPath = ()
    short_sections: int = 0
    """How many chunks were short."""
    scan: ScanState = START

    def to_json(self) -> str:
        """Return the state as a JSON text, to be stored."""
        values: dict[str, Any] = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name != "scan"
        }
        block = self.scan.block
        values["known_to"] = self.scan.known_to
        values["paragraph"] = self.scan.paragraph
        values["block"] = None if block is None else [block.kind, block.length]
        return json.dumps(values)

    @classmethod
    def from_json(cls, text: str) -> ChunkerState:
        """Return the state that a JSON text of `to_json` tells."""
        values: dict[str, Any] = json.loads(text)
        block = values.pop("block")
        scan = ScanState(
            known_to=values.pop("known_to"),
            paragraph=values.pop("paragraph"),
            block=None if block is None else Block(*block),
        )
        path = tuple((level, title) for level, title in values.pop("path"))
        return cls(**values, path=path, scan=scan)


BEGINNING = ChunkerState()
"""Before the first chunk."""
