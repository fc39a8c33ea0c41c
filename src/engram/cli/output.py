"""Output of commands: the answer as JSON or text on stdout, notices and progress on stderr."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

import typer

from engram.cli.layout import table_lines, wrap_words
from engram.cli.terminal import columns, is_colored, stderr, stdout
from engram.clock import format_time
from engram.text.quoting import IN_JSON, PLAIN

if TYPE_CHECKING:
    from rich.progress import ProgressColumn, Task

INDENT = "  "


def show_json(answer: object) -> None:
    """Print an answer as JSON, with control characters escaped."""
    import orjson

    from engram.model.value import plain

    text = orjson.dumps(plain(answer), option=orjson.OPT_INDENT_2).decode()
    # JSON is UTF-8, whatever the terminal's encoding is.
    stdout().flush()
    stdout().buffer.write(IN_JSON.text(text).encode() + b"\n")
    stdout().buffer.flush()


def print_line(text: str = "") -> None:
    """Print a line of the answer to stdout, however long it is."""
    stdout().write(_encodable(text + "\n", stdout().encoding))


def print_notice(text: str) -> None:
    """Print a line that is not part of the answer to stderr."""
    stdout().flush()
    line = "\n".join(_wrapped(text, stderr()))
    shown = typer.style(line, dim=True) if is_colored(stderr()) else line
    stderr().write(_encodable(shown + "\n", stderr().encoding))


def print_wrapped(text: str, *, indent: str = "") -> None:
    """Print a line of the answer; a terminal gets it wrapped at spaces, so that no id is split."""
    for line in _wrapped(text, stdout(), indent=indent):
        print_line(line)


def print_text(text: str, *, indent: str = INDENT) -> None:
    """Print a stored text, with each line indented and invisible characters escaped."""
    for line in visible(text).split("\n"):
        print_wrapped(indent + line, indent=indent)


def _wrapped(text: str, stream: TextIO, *, indent: str = "") -> list[str]:
    return wrap_words(text, columns(), indent=indent) if stream.isatty() else [text]


def styled(text: str, **style: Any) -> str:
    """Return `text` with terminal styles if stdout shows colours."""
    return typer.style(text, **style) if is_colored(stdout()) else text


def show_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; where a terminal is too narrow, cells wrap at words or a row becomes a list."""
    cells = [[visible_line(cell) for cell in row] for row in rows]
    width = columns() if stdout().isatty() else None
    for is_head, line in table_lines(headers, cells, width=width):
        print_line(styled(line, bold=True) if is_head else line)


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
    """Return a count with its noun: `1 message`, `2,000 messages`, `2 memories`, `3 days`."""
    if count == 1:
        return f"1 {noun}"
    changes = noun.endswith("y") and not noun.endswith("ay")
    return f"{count:,} {noun[:-1]}ies" if changes else f"{count:,} {noun}s"


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
def progress(
    label: str, *, total: int | None = None, in_bytes: bool = False, noun: str | None = None
) -> Generator[Advance]:
    """Show a progress bar while the block runs; yield the function that advances it.

    With a noun it tells how many of these there were so far and in a second, for work without a total.
    """
    if not stderr().isatty():
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
    counts = count if noun is None else _rate_column(noun)
    columns = (TextColumn("{task.description}"), BarColumn(), counts)
    console = Console(stderr=True)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda steps: bar.advance(task, steps)


def _rate_column(noun: str) -> ProgressColumn:
    """Return a column that tells how many there were so far, and in a second."""
    from rich.progress import ProgressColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.completed:,.0f} {noun}, {task.speed or 0:,.0f}/s")

    return Rate()


def _advance_nothing(steps: int) -> None:
    """Do nothing: there is no progress bar."""


def short_time(moment: datetime) -> str:
    """Format a time to the minute, in UTC."""
    return format_time(moment)[:16].replace("T", " ") + "Z"
