"""`engram memories`: store, show, list, history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from engram import limits
from engram.model.memory import MemoryType
from engram.model.memory_reading import READING_TOKENS
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.memory_options import (
    Importance,
    OwnCategory,
    OwnProject,
    OwnSource,
    OwnTags,
    Type,
)
from engram.transport.cli.moments import MOMENT_HELP, future_moment, past_moment
from engram.transport.cli.options import parse, shared_options
from engram.transport.cli.texts import given_texts

if TYPE_CHECKING:
    from engram.transport.answers import MemoriesListed, MemoryHistoryRead

STORE_EXAMPLES = """\b
Examples:
  engram memories store "We chose SQLite" --type decision
  engram memories store "Never deploy on Fridays" --importance 0 --immutable
  engram memories store "The freeze is on" --valid-to 2026-12-24 --tag release
  git log -1 | engram memories store --project engram --source git
"""

SHOW_EXAMPLES = """\b
Examples:
  engram memories show mem_…
  engram memories show mem_… --json | jq -r .content
"""

LIST_EXAMPLES = """\b
Examples:
  engram memories list
  engram memories list --project engram --type decision --limit 20
  engram memories list --tag db --tag cache --json
"""

HISTORY_EXAMPLES = """\b
Examples:
  engram memories history mem_…
  engram memories history mem_… --json | jq '.versions[].content'
"""

Text = Annotated[
    str | None,
    typer.Argument(metavar="TEXT", help="What to keep; without it, stdin.", show_default=False),
]
MemoryArgument = Annotated[str, typer.Argument(metavar="MEMORY", help="The memory's id.")]
Immutable = Annotated[
    bool, typer.Option("--immutable", help="It can be neither corrected nor forgotten.")
]
EpisodeOption = Annotated[
    str | None, typer.Option("--episode", metavar="ID", help="The episode it belongs to.")
]
Confidence = Annotated[
    float | None, typer.Option(min=0, max=1, help="How sure a pattern is, 0 to 1.")
]
ValidFrom = Annotated[
    str | None, typer.Option(metavar="WHEN", help=f"It holds from then on: {MOMENT_HELP}.")
]
ValidTo = Annotated[str | None, typer.Option(metavar="WHEN", help="It holds until then.")]
Expires = Annotated[
    str | None, typer.Option(metavar="WHEN", help="It is found until then, and no longer.")
]
Page = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=limits.MEMORY_PAGE_MAX, help="Memories shown.")
]
Offset = Annotated[int, typer.Option(min=0, help="How many to skip.")]
OneType = Annotated[MemoryType | None, typer.Option("--type", help="Only of this type.")]
AnyTags = Annotated[
    list[str] | None,
    typer.Option("--tag", "-t", metavar="TAG", help="Only with this tag; repeat, any may match."),
]
OneProject = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of this project. [default: default]")
]
Budget = Annotated[
    int,
    typer.Option(
        min=limits.TOKEN_BUDGET_MIN, max=limits.TOKEN_BUDGET_MAX, help="Tokens of text at most."
    ),
]


@shared_options
def store_memory(
    invocation: Invocation,
    text: Text = None,
    *,
    type_: Type = "context",
    category: OwnCategory = "general",
    source: OwnSource = None,
    importance: Importance = 2,
    tag: OwnTags = None,
    project: OwnProject = None,
    immutable: Immutable = False,
    episode: EpisodeOption = None,
    confidence: Confidence = None,
    valid_from: ValidFrom = None,
    valid_to: ValidTo = None,
    expires: Expires = None,
) -> None:
    """Keep a memory verbatim and print its id."""
    from engram.clock import SystemClock
    from engram.transport.answers import memory_stored
    from engram.transport.cli.output import say
    from engram.transport.requests import StoreMemory

    now = SystemClock().now()
    (content,) = given_texts(
        None if text is None else [text], missing="give a TEXT, or pipe a text in"
    )
    draft = parse(
        StoreMemory,
        content=content,
        memory_type=type_,
        category=category,
        source=source,
        importance=importance,
        tags=tag or None,
        project=project,
        immutable=immutable,
        episode_id=episode,
        pattern_confidence=confidence,
        valid_from=past_moment("valid-from", valid_from, now=now),
        valid_to=future_moment("valid-to", valid_to, now=now),
        expires_at=future_moment("expires", expires, now=now),
    ).to_model()
    answer = memory_stored(
        invocation.run_local(lambda service, me: service.memories.store(me, draft))
    )
    invocation.show(answer, lambda: say(answer["id"]))


@shared_options
def show_memory(invocation: Invocation, memory: MemoryArgument) -> None:
    """Show a memory, verbatim and whole."""
    from engram.model.ids import MemoryId
    from engram.model.memory_reading import MemoryFetch
    from engram.transport.answers import memory_view
    from engram.transport.cli.memory_text import print_memory

    request = MemoryFetch(memory_id=MemoryId(memory))
    fetched = invocation.run_local(lambda service, me: service.memories.fetch(me, request))
    answer = memory_view(fetched.memory)
    invocation.show(answer, lambda: print_memory(answer))


@shared_options
def list_memories(
    invocation: Invocation,
    *,
    limit: Page = 50,
    offset: Offset = 0,
    project: OneProject = None,
    type_: OneType = None,
    tag: AnyTags = None,
    budget: Budget = READING_TOKENS,
) -> None:
    """List a project's memories, the newest first."""
    from engram.transport.answers import memories_listed
    from engram.transport.requests import ListMemories

    query = parse(
        ListMemories,
        limit=limit,
        offset=offset,
        project=project,
        memory_type=type_,
        tags=tag or None,
    ).to_model()
    page = invocation.run_local(lambda service, me: service.memories.list(me, query))
    answer = memories_listed(page, token_budget=budget)
    invocation.show(answer, lambda: _print_list(answer))


@shared_options
def show_history(
    invocation: Invocation, memory: MemoryArgument, *, budget: Budget = READING_TOKENS
) -> None:
    """Show what a memory said before each of its changes, the oldest first."""
    from engram.model.ids import MemoryId
    from engram.transport.answers import memory_history_read

    history = invocation.run_local(
        lambda service, me: service.memories.history(me, MemoryId(memory))
    )
    answer = memory_history_read(history, token_budget=budget)
    invocation.show(answer, lambda: _print_history(answer))


def _print_list(answer: MemoriesListed) -> None:
    from engram.transport.cli.memory_text import print_memory
    from engram.transport.cli.output import notice
    from engram.transport.cli.paging import page_notice

    for memory in answer["memories"]:
        print_memory(memory)
    notice(page_notice(answer["count"], answer["total"], answer["next_offset"], "memory"))


def _print_history(answer: MemoryHistoryRead) -> None:
    from engram.transport.cli.memory_text import print_version
    from engram.transport.cli.output import notice

    for version in answer["versions"]:
        print_version(version, memory_id=answer["memory_id"])
    if not answer["versions"]:
        notice("never changed")
