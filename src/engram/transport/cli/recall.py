"""`engram memories recall`: what is known of a question, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engram import limits
from engram.model.memory import MEMORY_TYPES
from engram.model.memory_reading import READING_TOKENS
from engram.model.search import ProfileName
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.memories import Budget
from engram.transport.cli.moments import MOMENT_HELP, past_moment
from engram.transport.cli.options import parse, shared_options
from engram.transport.cli.visible import counted, visible_line

if TYPE_CHECKING:
    from engram.transport.answers import MemoriesRecalled, RecalledView

EXAMPLES = """\b
Examples:
  engram memories recall "which database did we choose?"
  engram memories recall deploy --type decision --type error --top-k 5
  engram memories recall "flaky tests" --project web --project api --since 90d
  engram memories recall "release rules" --project '*' --hops 2
"""

Query = Annotated[str, typer.Argument(metavar="QUERY", help="A question or words.")]
TopK = Annotated[int, typer.Option(min=1, max=limits.RECALL_RESULTS_MAX, help="Memories at most.")]
Projects = Annotated[
    list[str] | None,
    typer.Option(
        "--project", metavar="NAME", help="Of this project; repeat; * is all. [default: default]"
    ),
]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="TYPE",
        help=f"Only of this type; repeat for more: {', '.join(MEMORY_TYPES)}.",
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", "-t", metavar="TAG", help="Only with this tag; repeat, all must match."),
]
Weight = Annotated[
    int | None,
    typer.Option(
        "--importance", min=0, max=limits.IMPORTANCE_MAX, help="Only this important, or more."
    ),
]
Since = Annotated[str | None, typer.Option(metavar="WHEN", help=f"From then on: {MOMENT_HELP}.")]
Before = Annotated[str | None, typer.Option(metavar="WHEN", help="Only earlier than then.")]
Hops = Annotated[
    int,
    typer.Option(
        min=0, max=limits.RELATION_HOPS_MAX, help="Steps to related memories shown beside them."
    ),
]
Weighing = Annotated[
    ProfileName, typer.Option("--profile", help="How words, meaning and recency are weighed.")
]


@shared_options
def recall_memories(
    invocation: Invocation,
    query: Query,
    *,
    top_k: TopK = 10,
    project: Projects = None,
    type_: Types = None,
    tag: Tags = None,
    importance: Weight = None,
    since: Since = None,
    before: Before = None,
    hops: Hops = 1,
    profile: Weighing = "default",
    budget: Budget = READING_TOKENS,
) -> None:
    """Recall memories by words and meaning, weighed by importance and recency."""
    from engram.clock import SystemClock
    from engram.transport.answers import memories_recalled
    from engram.transport.requests import RecallMemories

    now = SystemClock().now()
    request = parse(
        RecallMemories,
        query=query,
        top_k=top_k,
        mode="full",
        projects=project or None,
        memory_types=type_ or None,
        tags=tag or None,
        min_importance=importance,
        since=past_moment("since", since, now=now),
        before=past_moment("before", before, now=now),
        include_relations=hops,
        include_conflicts=True,
        profile=profile,
        token_budget=budget,
    )
    asked = request.to_model()
    recalled = invocation.run_local(lambda service, me: service.memory_recall.recall(me, asked))
    answer = memories_recalled(recalled, request.to_shape())
    invocation.show(answer, lambda: _print_answer(answer))


def _print_answer(answer: MemoriesRecalled) -> None:
    from engram.transport.cli.output import notice, say

    for result in answer.get("results", ()):
        _print_result(result)
    for conflict in answer.get("conflicting_results", ()):
        say(f"{conflict['memory']['id']} contradicts {conflict['contradicts_id']}")
    notice(_summary(answer))


def _print_result(result: RecalledView) -> None:
    from engram.transport.cli.memory_text import print_memory
    from engram.transport.cli.output import paint, say
    from engram.transport.cli.transcript import INDENT

    print_memory(result["memory"], score=result["score"])
    superseded = ", ".join(result.get("superseded_by", ()))
    if superseded:
        say(f"{INDENT}superseded by {superseded}")
    for connected in result["connected"]:
        other = connected["memory"]
        is_outgoing = connected["direction"] == "outgoing"
        relation = connected["rel_type"] if is_outgoing else f"is what {connected['rel_type']} it:"
        said = visible_line(other["summary"])
        say(paint(f"{INDENT}{relation} {other['id']}: {said}", dim=True))
    if superseded or result["connected"]:
        say()


def _summary(answer: MemoriesRecalled) -> str:
    candidates = counted(answer["total_candidates"], "candidate")
    parts = [f"{counted(answer['count'], 'memory')} of {candidates}"]
    if answer["truncated"]:
        parts.append("more text than the budget allows: raise --budget")
    if answer["pending"]:
        parts.append(f"{counted(answer['pending'], 'text')} not indexed in full yet")
    return "; ".join(parts) + "."
