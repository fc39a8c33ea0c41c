"""Lone surrogates, which JSON can write and no store can keep, in every text that a tool takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engram.errors import InvalidRequestError
from engram.mcp.tools import TOOLS
from engram.wiring import open_service
from tests.fuzz.mutants import sample_object
from tests.fuzz.store import settings_in
from tests.promises import promise

pytestmark = promise("clear")

HALF = "half a \ud83e badger"


def with_halves(value: Any, schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a value with each of its texts that a schema leaves open made bad, and where that is."""
    match schema:
        case {"enum": _}:
            return
        case {"type": "string"}:
            yield path, HALF
        case {"type": "array", "items": items}:
            for where, bad in with_halves(None, items, f"{path}[0]"):
                yield where, [bad]
        case {"type": "object", "properties": fields}:
            for name, field in fields.items():
                for where, bad in with_halves(None, field, f"{path}.{name}".lstrip(".")):
                    yield where, {**(value or needed(schema)), name: bad}
        case _:
            return


def needed(schema: Any) -> dict[str, Any]:
    """Return the fields without which an object is refused."""
    required = {name: schema["properties"][name] for name in schema.get("required", ())}
    only = {"properties": required, "required": list(required)}
    return sample_object(Random(0), only, ["mem_x"])  # noqa: S311 no secret


async def test_a_lone_surrogate_is_refused_by_the_argument_that_holds_it(tmp_path: Path) -> None:
    async with open_service(settings_in(tmp_path)) as service:
        principal = await service.access.local_principal()
        for tool in TOOLS:
            for path, arguments in with_halves(needed(tool.input_schema), tool.input_schema):
                with pytest.raises(InvalidRequestError) as refused:
                    await tool.call(service, principal, arguments)

                assert (tool.name, refused.value.field) == (tool.name, path)
