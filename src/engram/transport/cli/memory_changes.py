"""`engram memories`: correct, forget, connect."""

from __future__ import annotations

from typing import Annotated

import typer

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.memory import RELATION_TYPES, Category, MemoryType, RelationType
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.memories import (
    Confidence,
    Expires,
    MemoryArgument,
    ValidFrom,
    ValidTo,
)
from engram.transport.cli.moments import future_moment, past_moment
from engram.transport.cli.options import parse, shared_options

CORRECT_EXAMPLES = """\b
Examples:
  engram memories correct mem_… --content "We chose Postgres"
  engram memories correct mem_… --importance 1 --tag db --tag decided
  engram memories correct mem_… --no-tags --valid-to 2026-12-31
\b
What it said before stays in its history.
"""

FORGET_EXAMPLES = """\b
Examples:
  engram memories forget mem_…
  engram memories forget mem_… --reason "the API was replaced"
\b
A forgotten memory is found no more and stays in its history.
`engram notes remove` removes a memory for good.
"""

CONNECT_EXAMPLES = """\b
Examples:
  engram memories connect mem_… mem_…
  engram memories connect mem_… mem_… --type supersedes
  engram memories connect mem_… mem_… --type supports --strength 0.5
"""

Content = Annotated[str | None, typer.Option(metavar="TEXT", help="What it says now.")]
NewType = Annotated[MemoryType | None, typer.Option("--type", help="What kind it is now.")]
NewCategory = Annotated[Category | None, typer.Option(help="What it is about now.")]
NewImportance = Annotated[
    int | None, typer.Option(min=0, max=limits.IMPORTANCE_MAX, help="0 is critical, 4 is trivial.")
]
NewTags = Annotated[
    list[str] | None,
    typer.Option("--tag", "-t", metavar="TAG", help="Its tags from now on; repeat for more."),
]
NoTags = Annotated[bool, typer.Option("--no-tags", help="Take all its tags away.")]
Reason = Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the history.")]
From = Annotated[str, typer.Argument(metavar="SOURCE", help="The memory's id.")]
To = Annotated[str, typer.Argument(metavar="TARGET", help="The id of the other memory.")]
Relating = Annotated[
    RelationType,
    typer.Option(
        "--type",
        metavar="TYPE",
        help=f"What the first is to the second: {', '.join(RELATION_TYPES)}.",
    ),
]
Strength = Annotated[float, typer.Option(min=0, max=1, help="How strongly.")]


@shared_options
def correct_memory(
    invocation: Invocation,
    memory: MemoryArgument,
    *,
    content: Content = None,
    type_: NewType = None,
    category: NewCategory = None,
    importance: NewImportance = None,
    tag: NewTags = None,
    no_tags: NoTags = False,
    confidence: Confidence = None,
    valid_from: ValidFrom = None,
    valid_to: ValidTo = None,
    expires: Expires = None,
) -> None:
    """Change a memory; what it said before stays in its history."""
    from engram.clock import SystemClock
    from engram.model.ids import MemoryId
    from engram.transport.answers import memory_view
    from engram.transport.cli.memory_text import print_memory
    from engram.transport.requests import MemoryCorrection

    if tag and no_tags:
        raise InvalidRequestError("cannot stand beside --tag", field="no-tags")
    now = SystemClock().now()
    change = parse(
        MemoryCorrection,
        content=content,
        memory_type=type_,
        category=category,
        importance=importance,
        tags=[] if no_tags else tag or None,
        pattern_confidence=confidence,
        valid_from=past_moment("valid-from", valid_from, now=now),
        valid_to=future_moment("valid-to", valid_to, now=now),
        expires_at=future_moment("expires", expires, now=now),
    ).to_change()
    answer = memory_view(
        invocation.run_local(
            lambda service, me: service.memories.correct(me, MemoryId(memory), change)
        )
    )
    invocation.show(answer, lambda: print_memory(answer))


@shared_options
def forget_memory(invocation: Invocation, memory: MemoryArgument, *, reason: Reason = None) -> None:
    """End a memory's validity; it is found no more and stays in its history."""
    from engram.model.ids import MemoryId
    from engram.transport.answers import memory_forgotten
    from engram.transport.cli.output import say

    answer = memory_forgotten(
        invocation.run_local(
            lambda service, me: service.memories.forget(me, MemoryId(memory), reason=reason)
        )
    )
    invocation.show(answer, lambda: say(f"forgot {answer['memory_id']}"))


@shared_options
def connect_memories(
    invocation: Invocation,
    source: From,
    target: To,
    *,
    type_: Relating = "relates_to",
    strength: Strength = 1.0,
) -> None:
    """Relate a memory to another."""
    from engram.transport.answers import memories_connected
    from engram.transport.cli.output import say
    from engram.transport.requests import ConnectMemories

    draft = parse(
        ConnectMemories,
        source_id=source,
        target_id=target,
        relation_type=type_,
        strength=strength,
    ).to_model()
    answer = memories_connected(
        invocation.run_local(lambda service, me: service.memories.connect(me, draft))
    )
    sentence = f"{answer['source_id']} {answer['relation_type']} {answer['target_id']}"
    invocation.show(answer, lambda: say(sentence))
