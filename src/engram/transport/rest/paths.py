"""The ids that paths hold: a memory's cannot be taken for a word such as `timeline`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.convertors import StringConvertor, register_url_convertor


class MemoryIdConvertor(StringConvertor):
    """Matches what the id of a memory looks like."""

    regex = "mem_[A-Za-z0-9_-]+"


# Paths are compiled where routes are declared, so their types have to be known before.
register_url_convertor("memory_id", MemoryIdConvertor())

MemoryPath = Annotated[str, Path(pattern=f"^{MemoryIdConvertor.regex}$")]
"""The part of a path that names a memory: `{memory_id:memory_id}`."""
