"""Texts that a command keeps: its arguments, or what is piped in."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from engram.errors import InvalidRequestError


def given_texts(texts: Sequence[str] | None, *, missing: str) -> Sequence[str]:
    """Return the arguments, or without any the one text on stdin.

    Raises:
        InvalidRequestError: there is neither; `missing` says what to give.
    """
    if texts:
        return texts
    from engram.transport.cli.messages import read_stdin_text

    # A terminal or an empty pipe is a forgotten argument, not a text.
    content = "" if sys.stdin.isatty() else read_stdin_text()
    if not content:
        raise InvalidRequestError(missing)
    return [content]
