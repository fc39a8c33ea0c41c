"""`engram search`: search results as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.api.search import quoted_text
from engram.cli.conversations import print_message
from engram.cli.output import (
    INDENT,
    bracketed,
    counted,
    explain_degraded,
    print_line,
    print_notice,
    print_text,
    styled,
    visible_line,
)

if TYPE_CHECKING:
    from engram.api.search import FoundMessageView, SearchAnswered, SearchResultView
    from engram.model.search import ScoreBreakdown


def print_found(answer: SearchAnswered) -> None:
    """Search conversations, memories and documents; results are verbatim, best first.

    Examples:
      engram search "where did we put the backup script?"
      engram search "flaky test" --tag ci --since 7d --limit 10
      engram search deploy --conversation conv_… --role assistant --explain
      engram search "api design" --json | jq -r '.results[].messages[].content'
    """
    for rank, result in enumerate(answer.results, start=1):
        _print_result(rank, result)
        print_line()
    print_notice(_summary(answer))


def _print_result(rank: int, result: SearchResultView) -> None:
    tags = bracketed(result.tags)
    place = styled(f"{result.score:.2f}  {_place(result)}", dim=True)
    print_line(f"{styled(f'{rank}. {_title(result)}', bold=True)}{tags}  {place}")
    text = quoted_text(result)
    if text is not None:
        print_text(text)
    elif not result.messages:
        print_line(f"{INDENT}not shown; {_command(result)}")
    for message in result.messages:
        _print_message(message, with_text=text is None)
    if result.memory_id and not result.messages and result.score_breakdown:
        print_line(styled(f"{INDENT * 2}{_explanation(result.score_breakdown)}", dim=True))


def _title(result: SearchResultView) -> str:
    if result.conversation_id:
        return visible_line(result.conversation_title or "untitled")
    return f"{result.kind}: {result.memory_type}, {result.category}"


def _place(result: SearchResultView) -> str:
    span = f"#{result.start_sequence}-{result.end_sequence}"
    if result.conversation_id:
        return f"{result.conversation_id} {span}"
    return f"{result.memory_id} {span}" if result.kind == "document" else result.memory_id or ""


def _command(result: SearchResultView) -> str:
    """Return the command that shows a result delivered without its text."""
    if result.conversation_id:
        show = f"engram conversations show {result.conversation_id}"
        return f"{show} --around {result.start_sequence}"
    return f"engram memories show {result.memory_id or ''}"


def _print_message(message: FoundMessageView, *, with_text: bool) -> None:
    if with_text:
        print_message(message, score=message.score, indent=INDENT)
    if message.score_breakdown:
        explanation = _explanation(message.score_breakdown)
        print_line(styled(f"{INDENT * 2}#{message.sequence}: {explanation}", dim=True))


def _explanation(breakdown: ScoreBreakdown) -> str:
    legs = " + ".join(
        f"{breakdown.weights.get(name, 0):g} x {name} {value:.3f}"
        for name, value in breakdown.legs.items()
    )
    factors = {
        "importance": breakdown.importance_factor,
        "usefulness": breakdown.usefulness_factor,
    }
    shown = "".join(f"{name} {factor:.3f}, " for name, factor in factors.items() if factor != 1)
    return (
        f"{legs} = {breakdown.fused:.3f}; "
        f"length {breakdown.length_charge:.3f}, {shown}ordered by {breakdown.order:.3f}"
    )


def _reason_cut(answer: SearchAnswered) -> str:
    """Return which bound left something out, and what to do."""
    handles = sum(not each.messages and each.chunk_text is None for each in answer.results)
    if not handles:
        return "more results than the limit; raise --limit"
    if handles < len(answer.results):
        return "more text than fits the token budget; raise --budget"
    return "more was found; raise --limit, or --budget for texts"


def _summary(answer: SearchAnswered) -> str:
    found = counted(len(answer.results), "result")
    candidates = counted(answer.total_candidates, "candidate")
    parts = [f"{found} of {candidates}, {counted(answer.tokens, 'token')}"]
    if answer.truncated:
        parts.append(_reason_cut(answer))
    if answer.pending:
        parts.append(f"{counted(answer.pending, 'message')} not indexed in full yet")
    if answer.note:
        parts.append(answer.note)
    return " ".join(["; ".join(parts) + ".", *map(explain_degraded, answer.degraded)])
