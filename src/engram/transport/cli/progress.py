"""A progress bar on stderr, for people; nothing where nobody watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

Advance = Callable[[int], None]


@contextmanager
def progress(label: str, *, total: int | None = None, in_bytes: bool = False) -> Generator[Advance]:
    """Show `label` while the block runs; yield what moves the bar on."""
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
    """There is no bar to move."""
