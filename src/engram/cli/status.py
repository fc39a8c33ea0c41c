"""`engram status`, `engram limits` and `engram version`."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from engram import limits as bounds
from engram.cli.invocation import Invocation
from engram.cli.operations import call
from engram.cli.options import shared_options
from engram.cli.output import explain_degraded, print_line, show_table, visible_line

if TYPE_CHECKING:
    from engram.api.account import StatusView

COUNTED = (
    "conversations",
    "messages",
    "memories",
    "documents",
    "content_bytes",
    "chunks",
    "vectors",
    "pending",
)
"""Counters shown by `engram status`, in order."""


@shared_options
def status(invocation: Invocation) -> None:
    """Show what is stored and which embedder search uses.

    Examples:
      engram status
      engram status --json | jq .messages
    """
    answer: StatusView = call(invocation, "status", {})
    invocation.show(answer, lambda: _print_status(invocation, answer))


@shared_options
def limits(invocation: Invocation) -> None:
    """List every limit with its value and its reason.

    Examples:
      engram limits
      engram limits --json | jq '.limits.MESSAGE_BYTES_MAX.value'
    """

    rows = list(read_limits())
    answer = {name: {"value": value, "reason": reason} for name, value, reason in rows}
    invocation.show(
        {"limits": answer},
        lambda: show_table(
            ("LIMIT", "VALUE", "WHY"), ((name, f"{value:,}", why) for name, value, why in rows)
        ),
    )


@shared_options
def version(invocation: Invocation) -> None:
    """Show the versions of Engram, Python and SQLite.

    Examples:
      engram version
      engram version --json
    """
    import platform
    import sqlite3

    from engram import __version__

    answer = {
        "engram": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    invocation.show(
        answer,
        lambda: print_line(
            f"engram {answer['engram']} (Python {answer['python']}, SQLite {answer['sqlite']})"
        ),
    )


def read_limits() -> Iterator[tuple[str, int | float, str]]:
    """Yield the name, value and reason of each limit; the reason is the string literal below it."""
    statements = ast.parse(inspect.getsource(bounds)).body
    for statement, following in itertools.pairwise(statements):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(reason))),
            ):
                yield name, getattr(bounds, name), " ".join(reason.split())
            case _:
                pass


def _print_status(invocation: Invocation, answer: StatusView) -> None:
    from engram import __version__

    print_line(f"Engram {__version__}, store {visible_line(str(invocation.store_place))}")
    for name in COUNTED:
        print_line(f"  {name.replace('_', ' '):<16}{getattr(answer, name):>16,}")
    print_line(f"  {'embedder':<16}{answer.embedder or 'none':>16}")
    for name in answer.degraded:
        print_line(explain_degraded(name))
