"""The parts of the documentation that the code knows best, as Markdown.

`make fix` writes them into `docs/reference/`, `make lint` checks that they are up to date.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import cast

from pydantic_core import PydanticUndefined

from engram import errors, limits
from engram.settings import PREFIX, Settings

HOME_DEFAULT = "`$XDG_DATA_HOME/engram`, else `~/.local/share/engram`"


def limits_table() -> str:
    """Return every bound with its value and its reason."""
    rows = ((f"`{name}`", f"{value:,}", reason) for name, value, reason in read_limits())
    return _table(("limit", "value", "why"), rows)


def errors_table() -> str:
    """Return every error code with what it means."""
    rows = ((f"`{error.code}`", inspect.getdoc(error) or "") for error in all_errors())
    return _table(("code", "meaning"), rows)


def settings_table() -> str:
    """Return every setting with its default and what it is for."""
    rows = (
        (f"`{PREFIX}{name.upper()}`", _shown_default(name, field.default), field.description or "")
        for name, field in Settings.model_fields.items()
    )
    return _table(("setting", "default", "what it is for"), rows)


def read_limits() -> Iterator[tuple[str, int | float, str]]:
    """Yield name, value and reason of each bound; the reason is the string below it."""
    statements = ast.parse(inspect.getsource(limits)).body
    for statement, following in pairwise(statements):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(reason))),
            ):
                yield name, getattr(limits, name), " ".join(reason.split())
            case _:
                pass


def all_errors() -> Sequence[type[errors.EngramError]]:
    """Return every error class in the order of the module."""
    classes = vars(errors).values()
    return [
        item for item in classes if inspect.isclass(item) and issubclass(item, errors.EngramError)
    ]


def _shown_default(name: str, default: object) -> str:
    match default:
        case _ if default is PydanticUndefined:
            return HOME_DEFAULT if name == "home" else "required"
        case None | ():
            return ""
        case tuple():
            return f"`{','.join(map(str, cast('tuple[object, ...]', default)))}`"
        case _:
            return f"`{default}`"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
