"""Asking before something is gone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from engram.errors import InvalidRequestError
from engram.transport.cli.failures import FAILED
from engram.transport.cli.visible import visible_line

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def confirm(question: str, *, yes: bool) -> None:
    """Return when the person at the terminal agrees, or did so with `--yes`.

    Raises:
        InvalidRequestError: there is nobody to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidRequestError("cannot be undone, and there is no terminal to ask: add --yes")
    if not typer.confirm(visible_line(question), err=True):
        print("nothing was changed", file=sys.stderr)
        raise SystemExit(FAILED)
