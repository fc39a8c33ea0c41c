"""Commands that the running engine of the store runs for this process.

Parsing arguments and building the commands takes longer than most of them need, and the engine has
done it before. Only what finds the engine is imported here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engram.bodies.lines import write_all
from engram.engine import LOST
from engram.errors import ConfigurationError, EngramError, UnavailableError
from engram.settings import Settings, allows_color, load_settings, terminal_columns

if TYPE_CHECKING:
    import socket

    from engram.engine.commands import CommandCall

HOSTED = frozenset(
    {
        ("--help",),
        ("-h",),
        ("search",),
        ("status",),
        ("conversations", "append"),
        ("conversations", "create"),
        ("conversations", "delete"),
        ("conversations", "edit"),
        ("conversations", "list"),
        ("conversations", "show"),
        ("documents", "list"),
        ("documents", "remove"),
        ("documents", "show"),
        ("memories", "change"),
        ("memories", "connect"),
        ("memories", "correct"),
        ("memories", "forget"),
        ("memories", "history"),
        ("memories", "list"),
        ("memories", "recall"),
        ("memories", "remove"),
        ("memories", "restore"),
        ("memories", "show"),
        ("memories", "store"),
        ("notes", "add"),
        ("notes", "context"),
        ("notes", "list"),
        ("notes", "remove"),
        ("orgs", "create"),
        ("orgs", "list"),
        ("orgs", "set"),
        ("projects", "alias"),
        ("projects", "exclude"),
        ("projects", "merge"),
        ("projects", "reset"),
        ("projects", "rules"),
        ("undo",),
        ("hold", "add"),
        ("hold", "lift"),
        ("hold", "list"),
        ("retention", "list"),
        ("retention", "remove"),
        ("retention", "run"),
        ("retention", "set"),
        ("trash", "empty"),
        ("trash", "list"),
        ("trash", "restore"),
    }
)
"""Commands that need only the store: they read no file, and start nothing.

Whether one of them reads its input, or asks for confirmation, turns out when it runs: then the engine
declines, and the command runs here.
"""


def is_hosted(arguments: Sequence[str]) -> bool:
    """Return True if the arguments name a command that the engine may run."""
    return not HOSTED.isdisjoint({tuple(arguments[:1]), tuple(arguments[:2])})


def run_thin(arguments: Sequence[str]) -> int | None:
    """Run a command in the running engine and return its exit status; None if it has to run here.

    Raises:
        UnavailableError: the engine ended after it began to change something.
    """
    # A traceback is shown by the process in which the error was raised.
    if not is_hosted(arguments) or "--debug" in arguments:
        return None
    home = _home(arguments)
    try:
        settings = load_settings({"home": home})
    except EngramError:
        return None  # It is reported where the command runs.
    link = _find(settings)
    if link is None:
        return None
    from engram.engine.commands import LostError, run_in_engine

    try:
        outcome = run_in_engine(link, _call(arguments, home, settings))
    except LostError:
        raise UnavailableError(LOST) from None
    if outcome is None:
        return None
    for descriptor, data in outcome.parts:
        write_all(descriptor, data)
    return outcome.status


def _find(settings: Settings) -> socket.socket | None:
    """Return a connection to the engine of these settings that expects a command."""
    from engram.engine.address import address_of, has_engine
    from engram.engine.commands import HELLO
    from engram.engine.launch import find_engine

    if settings.url is not None or settings.log == "debug" or not has_engine(settings):
        return None
    try:
        return find_engine(address_of(settings), HELLO)
    except ConfigurationError:
        return None  # Without a place for a socket no engine runs.


def _call(arguments: Sequence[str], home: str | None, settings: Settings) -> CommandCall:
    from engram.engine.commands import STDERR, STDOUT, CommandCall, stream_of

    return CommandCall(
        arguments=tuple(arguments),
        home=home,
        place=str(settings.home),
        columns=terminal_columns(),
        allows_color=allows_color(),
        stdout=stream_of(STDOUT, sys.stdout),
        stderr=stream_of(STDERR, sys.stderr),
    )


def _home(arguments: Sequence[str]) -> str | None:
    """Return what looks like the value of `--home`; the engine declines if its parser disagrees."""
    given = None
    for place, argument in enumerate(arguments):
        if argument == "--":
            break
        if argument == "--home" and place + 1 < len(arguments):
            given = arguments[place + 1]
        elif argument.startswith("--home="):
            given = argument.removeprefix("--home=")
    return given
