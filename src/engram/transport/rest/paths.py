"""What paths hold: the id of a memory cannot be taken for a word such as `timeline`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from starlette.convertors import IntegerConvertor, StringConvertor, register_url_convertor


class MemoryIdConvertor(StringConvertor):
    """Matches what the id of a memory looks like."""

    regex = "mem_[A-Za-z0-9_-]+"


class DocumentIdConvertor(StringConvertor):
    """Matches the id of a document, and that of a memory which may own one."""

    regex = "(?:doc|mem)_[A-Za-z0-9_-]+"


class PartConvertor(IntegerConvertor):
    """Matches the number of a part of an upload."""

    regex = "[0-9]{1,9}"


# Paths are compiled where routes are declared, so their types have to be known before.
register_url_convertor("memory_id", MemoryIdConvertor())
register_url_convertor("document_id", DocumentIdConvertor())
register_url_convertor("part", PartConvertor())

MemoryPath = Annotated[str, Path(pattern=f"^{MemoryIdConvertor.regex}$")]
"""The part of a path that names a memory: `{memory_id:memory_id}`."""

DocumentPath = Annotated[str, Path(pattern=f"^{DocumentIdConvertor.regex}$")]
"""The part of a path that names a document: `{document_id:document_id}`."""

PartPath = Annotated[int, Path(ge=0, le=999_999_999)]
"""The part of a path that says which part of an upload it is: `{part:part}`."""
