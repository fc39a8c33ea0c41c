"""Output of commands: the answer as JSON or text on stdout, notices and progress on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TextIO

import typer

from engram.clock import format_time
from engram.text.escaping import IN_JSON, PLAIN

INDENT = "  "


def show_json(answer: object) -> None:
    """Print an answer as JSON, with control characters escaped."""
    import orjson

    from engram.model.value import plain

    text = orjson.dumps(plain(answer), option=orjson.OPT_INDENT_2).decode()
    typer.echo(IN_JSON.text(text).encode())


def print_line(text: str = "") -> None:
    """Print a line of the answer to stdout."""
    sys.stdout.write(_encodable(text + "\n", sys.stdout.encoding))


def print_notice(text: str) -> None:
    """Print a line that is not part of the answer to stderr."""
    sys.stdout.flush()
    line = typer.style(text, dim=True) if _is_colored(sys.stderr) else text
    sys.stderr.write(_encodable(line + "\n", sys.stderr.encoding))


def print_text(text: str, *, indent: str = INDENT) -> None:
    """Print a stored text, with each line indented and invisible characters escaped."""
    for line in visible(text).split("\n"):
        print_line(indent + line)


def styled(text: str, **style: Any) -> str:
    """Return `text` with terminal styles if stdout shows colours."""
    return typer.style(text, **style) if _is_colored(sys.stdout) else text


def show_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; in a narrow terminal cells wrap and are never truncated."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible_line(cell)) for cell in row))
    width = None if sys.stdout.isatty() else _UNBOUNDED_WIDTH
    Console(width=width, highlight=False).print(table)


_UNBOUNDED_WIDTH = 100_000
"""Output to a pipe does not wrap."""


def _is_colored(stream: TextIO) -> bool:
    if not stream.isatty():
        return False
    from engram.settings import allows_color

    return allows_color()


def _encodable(text: str, encoding: str) -> str:
    """Escape characters that the stream's encoding lacks."""
    return text.encode(encoding, errors="backslashreplace").decode(encoding)


def visible(text: str) -> str:
    """Return `text` with invisible characters escaped, except tabs and line ends."""
    return PLAIN.text(text.replace("\r\n", "\n"))


def visible_line(text: str) -> str:
    """Return `text` as one line, with all invisible characters escaped."""
    return PLAIN.label(text)


def bracketed(tags: Iterable[str]) -> str:
    """Return tags as they follow a title: ` [work] [travel]`."""
    return "".join(f" [{visible_line(tag)}]" for tag in tags)


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: `1 message`, `2,000 messages`, `2 memories`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"


def page_summary(shown: int, total: int, next_offset: int | None, thing: str) -> str:
    """Return how many items are shown, and the option that shows the next page."""
    more = "" if next_offset is None else f"; continue with --offset {next_offset}"
    return f"{shown:,} of {counted(total, thing)}{more}"


_SENTENCES = {
    "words_only": "Search uses words only.",
    "embedder_unavailable": "The embedder is unavailable: check the model files with `engram models verify`.",
    "instant_unavailable": "The model for instant vectors is missing: download it with `engram models pull`.",
    "embedder_changed": "The stored vectors come from another embedder: run `engram reembed`.",
    "index_lag": "The newest messages are found by words only until they are indexed.",
    "query_shortened": "The query has too many words; only the first ones were used.",
}


def explain_degraded(name: str) -> str:
    """Return a sentence for one entry of `degraded`."""
    return _SENTENCES.get(name, f"Search is degraded: {name}.")


Advance = Callable[[int], None]


@contextmanager
def progress(label: str, *, total: int | None = None, in_bytes: bool = False) -> Generator[Advance]:
    """Show a progress bar while the block runs; yield the function that advances it."""
    if not sys.stderr.isatty():
        yield _advance_nothing
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count)
    console = Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda steps: bar.advance(task, steps)


def _advance_nothing(steps: int) -> None:
    """Do nothing: there is no progress bar."""


def short_time(moment: datetime) -> str:
    """Format a time to the minute, in UTC."""
    return format_time(moment)[:16].replace("T", " ") + "Z"
