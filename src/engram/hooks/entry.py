"""Run one hook: capture by a record in the spool, recall by asking the engine.

Whatever happens, the agent gets valid JSON and status 0, and waits no longer than a fixed time.
"""

from __future__ import annotations

import json
import os
import sys
import time

from engram import limits
from engram.environment import are_hooks_on, find_home
from engram.hooks.events import (
    CAPTURING,
    CLIENTS,
    answer_to,
    call_of,
    client_of,
    meaning_of,
    record_of,
    text_of,
)
from engram.hooks.reading import read_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from engram.hooks.events import Payload

STDIN, STDOUT = 0, 1


def run_hook(arguments: list[str]) -> None:
    """Answer the event that the arguments name, with the payload on stdin."""
    # The agent has also waited for the start of Python.
    began = time.monotonic() - time.process_time()
    try:
        answer = _answer(arguments, began)
    except Exception as exc:  # noqa: BLE001 - an agent must never fail because of its memory
        sys.stderr.write(f"engram: {type(exc).__name__}: {exc}\n")
        answer = {}
    os.write(STDOUT, json.dumps(answer).encode() + b"\n")


def _answer(arguments: list[str], began: float) -> Payload:
    given, options = _options(arguments)
    payload = read_object(STDIN, deadline=began + limits.HOOK_READ_S)
    # Another client may run this command at an event that it only maps to this one.
    event = meaning_of(text_of(payload, "hook_event_name")) or meaning_of(given)
    if event is None:
        sys.stderr.write(f"engram: {given!r} is no event that hooks answer\n")
        return {}
    client = client_of(payload) or options.get("client") or CLIENTS[0]
    context = ""
    if payload and are_hooks_on():
        home = os.path.abspath(options.get("home") or find_home())
        context = _act(event, client, payload, home=home, began=began)
    return answer_to(event, client, payload, context)


def _options(arguments: list[str]) -> tuple[str, dict[str, str]]:
    """Return the event and the options; both `--client X` and `--client=X` are understood."""
    event, options = "", dict[str, str]()
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("--"):
            event = event or argument
            continue
        name, separator, value = argument.removeprefix("--").partition("=")
        options[name] = value if separator else next(rest, "")
    return event, options


def _act(event: str, client: str, payload: Payload, *, home: str, began: float) -> str:
    """Capture or recall; return what the agent is to read."""
    # Each event imports only what it needs.
    from engram.hooks.starting import is_served, start  # noqa: PLC0415

    if event in CAPTURING:
        _capture(event, client, payload, home)
    if not is_served(home):
        start(home)
    elif event not in {"turn", "end"}:
        from engram.hooks.calling import ask  # noqa: PLC0415

        call = call_of(event, client, payload)
        return ask(home, call, deadline=began + limits.HOOK_RECALL_S)
    return ""


def _capture(event: str, client: str, payload: Payload, home: str) -> None:
    record = record_of(event, client, payload, at=time.time_ns() // 1_000)
    if record is None:
        return
    from engram.hooks.spool import append  # noqa: PLC0415 - recall needs no spool

    append(home, record)
