"""`engram search`: who said what, when, best first."""

from __future__ import annotations

from typing import Annotated

import typer

from engram import limits
from engram.model.conversation import Role
from engram.model.search import KINDS, Detail, ProfileName
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.moments import MOMENT_HELP, past_moment
from engram.transport.cli.options import parse, shared_options

EXAMPLES = """\b
Examples:
  engram search "where did we put the backup script?"
  engram search "flaky test" --tag ci --since 7d --limit 10
  engram search deploy --conversation conv_… --role assistant --explain
  engram search "api design" --json | jq -r '.results[].messages[].content'
"""

Query = Annotated[str, typer.Argument(metavar="QUERY", help="A question or words.")]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=limits.SEARCH_RESULTS_MAX, help="Results.")
]
Budget = Annotated[
    int,
    typer.Option(
        min=limits.TOKEN_BUDGET_MIN, max=limits.TOKEN_BUDGET_MAX, help="Tokens of text at most."
    ),
]
ConversationFilter = Annotated[
    str | None, typer.Option("--conversation", "-c", metavar="ID", help="Only this conversation.")
]
Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", "-t", metavar="TAG", help="Only with this tag; repeat for more, all must match."
    ),
]
Agent = Annotated[str | None, typer.Option(metavar="ID", help="Only this agent's.")]
Project = Annotated[str | None, typer.Option(metavar="NAME", help="Only this project.")]
Speaker = Annotated[Role | None, typer.Option(help="Only what this role said.")]
Since = Annotated[str | None, typer.Option(metavar="WHEN", help=f"From then on: {MOMENT_HELP}.")]
Before = Annotated[str | None, typer.Option(metavar="WHEN", help="Only earlier than then.")]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="|".join(KINDS), help="Only this kind; repeat for more."),
]
MinScore = Annotated[float, typer.Option(min=0, max=1, help="Only results scoring this or more.")]
DetailLevel = Annotated[
    Detail, typer.Option(help="The best messages, whole windows, or handles without text.")
]
Weighing = Annotated[
    ProfileName, typer.Option("--profile", help="How words, meaning and recency are weighed.")
]
Explain = Annotated[bool, typer.Option("--explain", help="Show how each score came about.")]


@shared_options
def search(
    invocation: Invocation,
    query: Query,
    *,
    limit: Limit = 5,
    budget: Budget = 2000,
    detail: DetailLevel = "messages",
    conversation: ConversationFilter = None,
    tag: Tags = None,
    agent: Agent = None,
    project: Project = None,
    role: Speaker = None,
    since: Since = None,
    before: Before = None,
    kind: Kinds = None,
    min_score: MinScore = 0.0,
    profile: Weighing = "default",
    explain: Explain = False,
) -> None:
    """Find again what was said, verbatim, best first."""
    from engram.clock import SystemClock
    from engram.transport.answers import search_answered
    from engram.transport.cli.results import print_answer
    from engram.transport.requests import Search

    now = SystemClock().now()
    request = parse(
        Search,
        query=query,
        limit=limit,
        token_budget=budget,
        detail=detail,
        conversation_id=conversation,
        tags=tag or None,
        agent_id=agent,
        project=project,
        role=role,
        since=past_moment("since", since, now=now),
        before=past_moment("before", before, now=now),
        kinds=kind or None,
        min_score=min_score,
        profile=profile,
        explain=explain,
    ).to_model()
    answer = search_answered(
        invocation.run_local(lambda service, me: service.recall.search(me, request))
    )
    invocation.show(answer, lambda: print_answer(answer))
