"""Input of commands: shared options, times, text from stdin, and confirmations."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Concatenate, ParamSpec

import typer

from engram import limits
from engram.cli.invocation import FAILED, Invocation
from engram.cli.output import print_notice, visible_line
from engram.cli.terminal import stdin
from engram.clock import from_microseconds
from engram.errors import InvalidRequestError

P = ParamSpec("P")

Home = Annotated[
    Path | None,
    typer.Option(metavar="DIRECTORY", help="Directory of the store. [env: ENGRAM_HOME]"),
]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="URL of the PostgreSQL database. [env: ENGRAM_DATABASE_URL]"),
]

OneOrganization = Annotated[
    str | None,
    typer.Option(
        "--org",
        "--organization",
        metavar="ID",
        help="Process only this organisation. [default: all]",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")
]

_SHARED = (("home", Home, None), ("as_json", Json, False), ("debug", Debug, False))


def shared_options(command: Callable[Concatenate[Invocation, P], None]) -> Callable[..., None]:
    """Add `--home`, `--json` and `--debug` to a command, and report its errors."""

    @functools.wraps(command)
    def invoke(*, home: Path | None, as_json: bool, debug: bool, **arguments: Any) -> None:
        invocation = Invocation(home=home, as_json=as_json, debug=debug)
        with invocation.reporting():
            functools.partial(command, invocation, **arguments)()

    vars(invoke)["__signature__"] = _with_shared(inspect.signature(command, eval_str=True))
    return invoke


def _with_shared(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature typer reads: the command's own options, then the shared ones."""
    _, *own = signature.parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = (
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, annotation, default in _SHARED
    )
    return signature.replace(parameters=[*own, *shared])


Forever = Annotated[
    bool, typer.Option("--forever", help="Delete for good instead of moving it to the trash.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def confirm_name(question: str, *, given: str | None) -> str:
    """Return the name that confirms a deletion: `given`, or else the answer to a prompt.

    Raises:
        InvalidRequestError: stdin is not a terminal.
    """
    if given is not None:
        return given
    if not stdin().isatty():
        raise InvalidRequestError(
            "this cannot be undone, and stdin is not a terminal: confirm with --name"
        )
    answer: str = typer.prompt(f"{visible_line(question)} Type its name to confirm", err=True)
    return answer


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation unless `yes`; exit if it is declined.

    Raises:
        InvalidRequestError: stdin is not a terminal.
    """
    if yes:
        return
    if not stdin().isatty():
        raise InvalidRequestError(
            "this cannot be undone, and stdin is not a terminal: confirm with --yes"
        )
    if not typer.confirm(visible_line(question), err=True):
        print_notice("nothing was changed")
        raise SystemExit(FAILED)


def _read_stdin_text() -> str:
    content = stdin().buffer.read(limits.MESSAGE_BYTES_MAX + 1)
    try:
        return content.decode()
    except UnicodeDecodeError as exc:
        message = f"byte {exc.start} is not UTF-8 text"
        raise InvalidRequestError(message, field="stdin") from exc


def read_text(given: str | None) -> str:
    """Return the argument, or the text on stdin if there is none.

    Raises:
        InvalidRequestError: there is neither.
    """
    (text,) = read_texts(None if given is None else [given])
    return text


def read_texts(
    texts: Sequence[str] | None, *, missing: str = "no text given: pass TEXT, or pipe text in"
) -> Sequence[str]:
    """Return the arguments, or the text on stdin if there are none.

    Raises:
        InvalidRequestError: there is neither; `missing` is the message.
    """
    if texts:
        return texts
    # A terminal or an empty pipe means a forgotten argument.
    content = "" if stdin().isatty() else _read_stdin_text()
    if not content:
        raise InvalidRequestError(missing)
    return [content]


FUTURE_HELP = "a date, RFC 3339, or a span such as 90m, 24h, 7d, 2w"
PAST_HELP = "a date, RFC 3339, a span (90m, 24h, 7d, 2w) or words (yesterday, last monday)"

_SPAN = re.compile(r"(\d{1,6})([mhdw])")
_UNITS = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}


def past_moment(flag: str, text: str, *, now: datetime) -> datetime:
    """Parse a time; a span is subtracted from now, and words mean the start of what they name.

    Raises:
        InvalidRequestError: `text` is not a time.
    """
    from engram.text.relative_time import find_start

    start = find_start(text, now)
    if start is not None:
        return from_microseconds(start)
    return _moment(flag, text, now=now, direction=-1, known=PAST_HELP)


def future_moment(flag: str, text: str, *, now: datetime) -> datetime:
    """Parse a time; a span is added to now.

    Raises:
        InvalidRequestError: `text` is not a time.
    """
    return _moment(flag, text, now=now, direction=1, known=FUTURE_HELP)


def span(flag: str, text: str) -> timedelta:
    """Parse a span of time.

    Raises:
        InvalidRequestError: `text` is not a span.
    """
    if parsed := _SPAN.fullmatch(text):
        return int(parsed[1]) * _UNITS[parsed[2]]
    raise InvalidRequestError("must be a span such as 90m, 24h, 7d, 2w", field=flag)


def _moment(flag: str, text: str, *, now: datetime, direction: int, known: str) -> datetime:
    try:
        if _SPAN.fullmatch(text):
            return now + direction * span(flag, text)
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError) as exc:
        raise InvalidRequestError(f"must be {known}", field=flag) from exc
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
