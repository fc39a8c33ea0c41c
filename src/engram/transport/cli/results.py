"""A search's answer as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engram.transport.answers import quoted_text
from engram.transport.cli.degraded import explain_degraded
from engram.transport.cli.output import notice, paint, say
from engram.transport.cli.transcript import INDENT, print_message
from engram.transport.cli.visible import counted, visible, visible_line

if TYPE_CHECKING:
    from engram.transport.answers import FoundMessageView, SearchAnswered, SearchResultView


def print_answer(answer: SearchAnswered) -> None:
    """Print the results, and on stderr what they cost and what is missing."""
    for rank, result in enumerate(answer["results"], start=1):
        _print_result(rank, result)
        say()
    notice(_summary(answer))


def _print_result(rank: int, result: SearchResultView) -> None:
    tags = "".join(f" [{visible_line(tag)}]" for tag in result["tags"])
    facts = paint(f"{result['score']:.2f}  {_place(result)}", dim=True)
    say(f"{paint(f'{rank}. {_title(result)}', bold=True)}{tags}  {facts}")
    text = quoted_text(result)
    if text is not None:
        for line in visible(text).split("\n"):
            say(INDENT + line)
    elif not result["messages"]:
        say(f"{INDENT}not shown; {_command(result)}")
    for message in result["messages"]:
        _print_found(message, with_text=text is None)
    if (
        "memory_id" in result
        and not result["messages"]
        and (breakdown := result.get("score_breakdown"))
    ):
        say(paint(f"{INDENT * 2}{_explanation(breakdown)}", dim=True))


def _title(result: SearchResultView) -> str:
    if "conversation_id" in result:
        return visible_line(result.get("conversation_title") or "untitled")
    return f"{result['kind']}: {result.get('memory_type')}, {result.get('category')}"


def _place(result: SearchResultView) -> str:
    if "conversation_id" in result:
        return f"{result['conversation_id']} #{result['start_sequence']}-{result['end_sequence']}"
    if result["kind"] == "document":
        return f"{result.get('memory_id')} #{result['start_sequence']}-{result['end_sequence']}"
    return result.get("memory_id", "")


def _command(result: SearchResultView) -> str:
    """Return the command that shows a result which came without its text."""
    if "conversation_id" in result:
        show = f"engram conversations show {result['conversation_id']}"
        return f"{show} --around {result['start_sequence']}"
    return f"engram memories show {result.get('memory_id', '')}"


def _print_found(message: FoundMessageView, *, with_text: bool) -> None:
    if with_text:
        print_message(message, score=message["score"], indent=INDENT)
    if breakdown := message.get("score_breakdown"):
        say(paint(f"{INDENT * 2}#{message['sequence']}: {_explanation(breakdown)}", dim=True))


def _explanation(breakdown: Mapping[str, Any]) -> str:
    weights = breakdown["weights"]
    legs = " + ".join(
        f"{weights.get(name, 0):g} x {name} {value:.3f}"
        for name, value in breakdown["legs"].items()
    )
    factors = "".join(
        f"{name} {breakdown[f'{name}_factor']:.3f}, "
        for name in ("importance", "usefulness")
        if breakdown[f"{name}_factor"] != 1
    )
    return (
        f"{legs} = {breakdown['fused']:.3f}; "
        f"length {breakdown['length_charge']:.3f}, {factors}ordered by {breakdown['order']:.3f}"
    )


def _summary(answer: SearchAnswered) -> str:
    found = counted(len(answer["results"]), "result")
    candidates = counted(answer["total_candidates"], "candidate")
    parts = [f"{found} of {candidates}, {counted(answer['tokens'], 'token')}"]
    if answer["truncated"]:
        parts.append("more text than the budget allows: raise --budget")
    if answer["pending"]:
        parts.append(f"{counted(answer['pending'], 'message')} not indexed in full yet")
    if "note" in answer:
        parts.append(answer["note"])
    return " ".join(["; ".join(parts) + ".", *map(explain_degraded, answer["degraded"])])
