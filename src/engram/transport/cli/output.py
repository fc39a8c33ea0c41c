"""What commands print: an answer as JSON or as text on stdout, notices on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import orjson
import typer

from engram.text.escaping import IN_JSON
from engram.transport.cli.visible import visible_line


def show_json(answer: object) -> None:
    """Print an answer as JSON: the very values, in a form no terminal obeys."""
    text = orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()
    typer.echo(IN_JSON.text(text).encode())


def say(text: str = "") -> None:
    """Print a part of the answer."""
    sys.stdout.write(_encodable(text + "\n", sys.stdout.encoding))


def notice(text: str) -> None:
    """Tell the person at the terminal something that is not part of the answer."""
    sys.stdout.flush()
    line = typer.style(text, dim=True) if _is_colored(sys.stderr) else text
    sys.stderr.write(_encodable(line + "\n", sys.stderr.encoding))


def paint(text: str, **style: Any) -> str:
    """Return `text` in a colour where colours are wanted."""
    return typer.style(text, **style) if _is_colored(sys.stdout) else text


def show_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; cells fold in a narrow terminal and are never cut."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible_line(cell)) for cell in row))
    width = None if sys.stdout.isatty() else _UNBOUNDED_WIDTH
    Console(width=width, highlight=False).print(table)


_UNBOUNDED_WIDTH = 100_000
"""A pipe has no edge to fold at."""


def _is_colored(stream: TextIO) -> bool:
    if not stream.isatty():
        return False
    from engram.settings import allows_color

    return allows_color()


def _encodable(text: str, encoding: str) -> str:
    """Show what the terminal's encoding lacks as escapes instead of failing."""
    return text.encode(encoding, errors="backslashreplace").decode(encoding)
