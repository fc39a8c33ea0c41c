"""`engram limits` and `engram version`: what this Engram is, without opening a store."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator

from engram import limits as bounds
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import shared_options

LIMITS_EXAMPLES = """\b
Examples:
  engram limits
  engram limits --json | jq '.limits.MESSAGE_BYTES_MAX.value'
"""

VERSION_EXAMPLES = """\b
Examples:
  engram version
  engram version --json
"""


@shared_options
def limits(invocation: Invocation) -> None:
    """Show every bound with its value and its reason."""
    from engram.transport.cli.output import show_table

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
    """Show the version of Engram and of what it runs on."""
    import platform
    import sqlite3

    from engram import __version__
    from engram.transport.cli.output import say

    answer = {
        "engram": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    invocation.show(
        answer,
        lambda: say(
            f"engram {answer['engram']} (Python {answer['python']}, SQLite {answer['sqlite']})"
        ),
    )


def read_limits() -> Iterator[tuple[str, int | float, str]]:
    """Yield name, value and reason of each bound; the reason is the string below it."""
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
