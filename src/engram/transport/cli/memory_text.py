"""Memories as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.transport.cli.moments import short_time
from engram.transport.cli.output import paint, say
from engram.transport.cli.transcript import INDENT
from engram.transport.cli.visible import visible, visible_line

if TYPE_CHECKING:
    from engram.transport.answers import MemoryView, VersionView

IMPORTANCE = ("critical", "high", "normal", "low", "trivial")


def print_memory(memory: MemoryView, *, score: float | None = None) -> None:
    """Print what a memory is, and its text."""
    tags = "".join(f" [{visible_line(tag)}]" for tag in memory["tags"])
    kind = f"{memory['memory_type']}, {IMPORTANCE[memory['importance']]}"
    scored = "" if score is None else paint(f"  {score:.2f}", dim=True)
    say(f"{paint(memory['id'], bold=True)}  {kind}{tags}{scored}")
    say(paint(INDENT + visible_line("  ".join(_facts(memory))), dim=True))
    _print_text(memory["content"], is_cut=bool(memory.get("truncated")), memory_id=memory["id"])


def print_version(version: VersionView, *, memory_id: str) -> None:
    """Print what a memory said before a change, and how it was changed."""
    title = f"version {version['version']}"
    span = f"{short_time(version['system_from'])} to {short_time(version['system_to'])}"
    ended = f"{version['change_type']} by {visible_line(version['actor'])}"
    say(f"{paint(title, bold=True)}  {paint(f'{span}  {ended}', dim=True)}")
    _print_text(version["content"], is_cut=bool(version.get("truncated")), memory_id=memory_id)


def _facts(memory: MemoryView) -> list[str]:
    facts = [
        memory["category"],
        f"from {memory['source']}",
        f"project {memory['project']}",
        short_time(memory["updated_at"]),
    ]
    times = ("valid from", memory.get("valid_from")), ("valid to", memory.get("valid_to"))
    times += (("expires", memory.get("expires_at")),)
    facts += [f"{name} {short_time(moment)}" for name, moment in times if moment]
    facts += ["immutable"] if memory["immutable"] else []
    return facts + (["forgotten"] if memory.get("forgotten") else [])


def _print_text(content: str, *, is_cut: bool, memory_id: str) -> None:
    for line in visible(content).split("\n"):
        say(INDENT + line)
    if is_cut:
        say(paint(f"{INDENT}cut here; engram memories show {memory_id}", dim=True))
    say()
