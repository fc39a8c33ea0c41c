"""Asking before something is gone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from engram.errors import InvalidRequestError
from engram.transport.cli.failures import FAILED
from engram.transport.cli.visible import visible_line

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def ask_name(question: str, *, given: str | None) -> str:
    """Return the name that proves that somebody means it: as given, else asked for.

    Raises:
        InvalidRequestError: there is nobody to ask.
    """
    if given is not None:
        return given
    if not sys.stdin.isatty():
        raise InvalidRequestError("cannot be undone, and there is no terminal to ask: add --name")
    answer: str = typer.prompt(f"{visible_line(question)} Type its name to confirm", err=True)
    return answer


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
