"""Messages as people read them: who said what, when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.transport.cli.moments import short_time
from engram.transport.cli.output import paint, say
from engram.transport.cli.visible import visible, visible_line

if TYPE_CHECKING:
    from engram.transport.answers import MessageView

INDENT = "  "

_ROLE_COLORS = {
    "user": "green",
    "assistant": "cyan",
    "system": "yellow",
    "tool": "magenta",
    "document": "blue",
}


def print_message(message: MessageView, *, score: float | None = None, indent: str = "") -> None:
    """Print who said what when."""
    speaker = _speaker(message)
    said_at = short_time(message.get("occurred_at", message["created_at"]))
    facts = f"#{message['sequence']}", said_at, "" if score is None else f"{score:.2f}"
    said = paint("  ".join(fact for fact in facts if fact), dim=True)
    say(f"{indent}{paint(speaker, fg=_ROLE_COLORS[message['role']], bold=True)}  {said}")
    for line in visible(message["content"]).split("\n"):
        say(f"{indent}{INDENT}{line}")


def _speaker(message: MessageView) -> str:
    name = message.get("name") or message.get("tool_name")
    return visible_line(f"{name} ({message['role']})" if name else message["role"])
