"""`engram search`: search results as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from engram.api.search import is_handle, marked_text, quoted_text, range_text, source_id
from engram.cli.conversations import print_message
from engram.cli.output import (
    INDENT,
    bracketed,
    counted,
    explain_degraded,
    print_line,
    print_notice,
    print_text,
    print_wrapped,
    styled,
    visible_line,
)
from engram.model.value import replace

if TYPE_CHECKING:
    from engram.api.search import FoundMessageView, SearchAnswered, SearchResultView
    from engram.model.search import ScoreBreakdown


def print_found(answer: SearchAnswered) -> None:
    """Search conversations, memories and documents; results are verbatim, best first.

    Examples:
      engram search "where did we put the backup script?"
      engram search "flaky test" --tag ci --since "last monday" --limit 10
      engram search deploy --conversation conv_… --role assistant --explain
      engram search "api design" --json | jq -r '.results[].messages[].content'
    """
    if not _is_irrelevant(answer):
        _print_results(answer.results)
    print_notice(_summary(answer))


def _print_results(results: Iterable[SearchResultView]) -> None:
    """Print results in their order; those of one conversation have one number, and its id once."""
    numbers = dict[str, int]()
    for result in results:
        source = source_id(result)
        is_new = source not in numbers
        _print_head(result, numbers.setdefault(source, len(numbers) + 1), is_new=is_new)
        if is_handle(result):
            print_line(f"{INDENT}not shown: {_command(result)}")
        else:
            _print_texts(result)
        print_line()


def _print_head(result: SearchResultView, number: int, *, is_new: bool) -> None:
    head = styled(f"{number}. {_title(result)}", bold=True)
    tags = bracketed(result.tags) if is_new else ""
    # The command below a handle has its id.
    ids = [source_id(result)] if is_new and not is_handle(result) else []
    details = "".join(f"  {each}" for each in (*ids, *_details(result)))
    print_wrapped(f"{head}{tags}{styled(details, dim=True)}", indent=INDENT)


def _details(result: SearchResultView) -> Iterator[str]:
    """Yield what is known of a result as a whole; listed messages have their own lines."""
    if result.messages and result.chunk_text is None:
        return
    if result.messages:
        yield f"#{result.start_sequence}-{result.end_sequence}"
    yield f"{result.score:.2f}"
    if result.range is not None:
        yield range_text(result.range)


def _print_texts(result: SearchResultView) -> None:
    text = quoted_text(result)
    if text is not None:
        print_text(marked_text(text, result.range))
    for message in result.messages:
        _print_message(message, with_text=text is None)
    if result.memory_id and not result.messages and result.score_breakdown:
        print_wrapped(styled(f"{INDENT * 2}{_explanation(result.score_breakdown)}", dim=True))


def _title(result: SearchResultView) -> str:
    if result.conversation_id:
        return visible_line(result.conversation_title or "untitled")
    return f"{result.kind}: {result.memory_type}, {result.category}"


def _command(result: SearchResultView) -> str:
    """Return the command that shows a result delivered without its text."""
    if result.conversation_id:
        show = f"engram conversations show {result.conversation_id}"
        return f"{show} --around {result.found_sequence}"
    return f"engram memories show {result.memory_id or ''}"


def _print_message(message: FoundMessageView, *, with_text: bool) -> None:
    if with_text:
        notes = [f"{message.score:.2f}", *([range_text(message.range)] if message.range else [])]
        shown = replace(message, content=marked_text(message.content, message.range))
        print_message(shown, notes=notes, indent=INDENT)
    if message.score_breakdown:
        explanation = _explanation(message.score_breakdown)
        print_wrapped(styled(f"{INDENT * 2}#{message.sequence}: {explanation}", dim=True))


def _explanation(breakdown: ScoreBreakdown) -> str:
    legs = " + ".join(
        f"{breakdown.weights.get(name, 0):g} x {name} {value:.3f}"
        for name, value in breakdown.legs.items()
    )
    time = f" + time {breakdown.time_bonus:.3f}" if breakdown.time_bonus else ""
    factors = {
        "importance": breakdown.importance_factor,
        "usefulness": breakdown.usefulness_factor,
    }
    shown = "".join(f"{name} {factor:.3f}, " for name, factor in factors.items() if factor != 1)
    return (
        f"{legs}{time} = {breakdown.fused:.3f}; "
        f"length {breakdown.length_charge:.3f}, {shown}ordered by {breakdown.order:.3f}"
    )


def _summary(answer: SearchAnswered) -> str:
    parts = [_found(answer)]
    if answer.cut_by:
        parts.append(f"more was found: raise --{answer.cut_by.replace('_', '-')}")
    if answer.weaker:
        shown = counted(answer.weaker, "weaker candidate")
        parts.append(f"{shown} left out: --min-score 0 shows them")
    if answer.repeated:
        parts.append(f"{answer.repeated} more with the same text")
    if answer.pending:
        parts.append(f"{counted(answer.pending, 'message')} not indexed in full yet")
    return " ".join(["; ".join(parts) + ".", *map(explain_degraded, answer.degraded)])


def _found(answer: SearchAnswered) -> str:
    if _is_irrelevant(answer):
        return "Nothing relevant"
    found = sum(1 if each.chunk_text else max(1, len(each.messages)) for each in answer.results)
    candidates = counted(answer.total_candidates, "candidate")
    return f"{counted(found, 'result')} of {candidates}, {counted(answer.tokens, 'token')}"


def _is_irrelevant(answer: SearchAnswered) -> bool:
    """Return True if nothing is delivered but handles of what came nearest."""
    return bool(answer.note) and (answer.weaker > 0 or not answer.results)
