"""`engram status`, `engram index` and `engram reindex`: what is stored, and what derives from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.transport.cli.degraded import explain_degraded
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import shared_options
from engram.transport.cli.visible import counted, visible_line

if TYPE_CHECKING:
    from engram.service import Service
    from engram.transport.answers import StatusView

STATUS_EXAMPLES = """\b
Examples:
  engram status
  engram status --json | jq .messages
"""

INDEX_EXAMPLES = """\b
Examples:
  engram index
  engram index --home /srv/engram --json
"""

REINDEX_EXAMPLES = """\b
Examples:
  engram reindex
  engram reindex --home /srv/engram --json
"""


COUNTED = (
    "conversations",
    "messages",
    "memories",
    "documents",
    "content_bytes",
    "chunks",
    "vectors",
    "pending",
)
"""What the status says of the store, in its order."""


@shared_options
def status(invocation: Invocation) -> None:
    """Show what is stored and how it is searched."""
    from engram.transport.answers import status_view

    answer = status_view(invocation.run_local(lambda service, me: service.account.status(me)))
    invocation.show(answer, lambda: _print_status(invocation, answer))


@shared_options
def index(invocation: Invocation) -> None:
    """Index what waits: documents, and the vectors of messages; a server does so by itself."""
    from engram.transport.cli.output import say

    messages = invocation.run(_index_all)
    invocation.show(
        {"messages": messages}, lambda: say(f"made the vectors of {counted(messages, 'message')}")
    )


@shared_options
def reindex(invocation: Invocation) -> None:
    """Rebuild the chunks and word indexes of all messages."""
    from engram.transport.cli.output import say

    messages = invocation.run(_reindex_all)
    invocation.show(
        {"messages": messages},
        lambda: say(f"rebuilt the indexes of {counted(messages, 'message')}"),
    )


async def _index_all(service: Service) -> int:
    from engram.transport.cli.progress import progress

    messages, stats = 0, await service.operator.stats()
    total = sum(each.counters.pending for each in stats)
    with progress("Making vectors", total=total) as advance:
        for each in stats:
            while await service.document_indexing.work(each.organization.id):
                pass  # its chunks wait for vectors from now on
            while done := await service.indexer.work(each.organization.id):
                advance(done)
                messages += done
    return messages


async def _reindex_all(service: Service) -> int:
    from engram.transport.cli.progress import progress

    messages, stats = 0, await service.operator.stats()
    total = sum(each.counters.messages for each in stats)
    with progress("Rebuilding the indexes", total=total) as advance:
        for each in stats:
            read = await service.operator.reindex_organization(each.organization.id)
            advance(read)
            messages += read
    return messages


def _print_status(invocation: Invocation, answer: StatusView) -> None:
    from engram import __version__
    from engram.transport.cli.output import say

    say(f"Engram {__version__}, store {visible_line(str(invocation.store_place))}")
    for name in COUNTED:
        say(f"  {name.replace('_', ' '):<16}{answer[name]:>16,}")
    say(f"  {'embedder':<16}{answer['embedder'] or 'none':>16}")
    for name in answer["degraded"]:
        say(explain_degraded(name))
