"""`engram reembed`: vectors of another embedder for everything that is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from engram.errors import NotFoundError
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import shared_options
from engram.transport.cli.visible import counted, visible_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.model.ids import OrganizationId
    from engram.service import Service
    from engram.service.reembedding import Reembedded, ReembeddingPlan
    from engram.settings import Settings

EXAMPLES = """\b
Examples:
  engram reembed --dry-run
  engram reembed --model local:bge-small-en-v1.5
  engram reembed --model openai:http://localhost:11434/v1#nomic-embed-text
\b
Servers go on meanwhile, with the vectors that are there. The new ones take
over when every message has them; then the old ones are removed. Interrupted,
the same command goes on where it was; with another --model, what was half
built is removed. Servers search the new vectors once their ENGRAM_EMBEDDER
names the same embedder, before or after.
"""

Model = Annotated[
    str | None,
    typer.Option(
        metavar="EMBEDDER", help="What embeds, written as ENGRAM_EMBEDDER; by default that."
    ),
]
OrganizationOption = Annotated[
    str | None,
    typer.Option("--org", "--organization", metavar="ID", help="One organisation instead of all."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what there is to do, and stop.")]


@shared_options
def reembed(
    invocation: Invocation,
    *,
    model: Model = None,
    org: OrganizationOption = None,
    dry_run: DryRun = False,
) -> None:
    """Replace all vectors by those of another embedder."""
    from engram.model.ids import OrganizationId

    configured = invocation.settings()
    chosen = invocation.settings(embedder=model)
    organization_id = None if org is None else OrganizationId(org)
    if dry_run:
        plans = invocation.run(lambda service: service.reembedding.plan(organization_id))
        invocation.show(_plans_view(plans, chosen), lambda: _print_plans(plans, chosen))
        return
    done = invocation.run(lambda service: _reembed_all(service, organization_id))
    invocation.show(_done_view(done, chosen), lambda: _print_done(done, chosen))
    if chosen.embedder != configured.embedder:
        from engram.transport.cli.output import notice

        notice(f"set ENGRAM_EMBEDDER={chosen.embedder} to search these vectors")


async def _reembed_all(
    service: Service, organization_id: OrganizationId | None
) -> list[Reembedded]:
    from engram.transport.cli.progress import progress

    plans = await service.reembedding.plan(organization_id)
    total = sum(plan.work.unmoved for plan in plans)
    done: list[Reembedded] = []
    with progress("Making vectors", total=total) as advance:
        for plan in plans:
            try:
                one = await service.reembedding.reembed(plan.organization.id, advance=advance)
            except NotFoundError:
                continue  # deleted meanwhile
            done.append(one)
    return done


def _plans_view(plans: Sequence[ReembeddingPlan], chosen: Settings) -> dict[str, Any]:
    return {
        "embedder": str(chosen.embedder),
        "organizations": [_plan_view(plan) for plan in plans],
    }


def _plan_view(plan: ReembeddingPlan) -> dict[str, Any]:
    return {
        "organization_id": plan.organization.id,
        "name": plan.organization.name,
        "deep": _name(plan.stored.deep),
        "half_built": _name(plan.stored.next),
        "target": plan.target.name,
        "messages": plan.work.messages,
        "messages_to_embed": plan.work.unmoved,
        "passages_estimated": plan.work.passages,
    }


def _done_view(done: Sequence[Reembedded], chosen: Settings) -> dict[str, Any]:
    return {
        "embedder": str(chosen.embedder),
        "organizations": [
            {
                "organization_id": one.organization_id,
                "messages_embedded": one.embedded,
                "messages_refused": one.refused,
                "half_built_dropped": _name(one.dropped),
                "vectors_removed": one.vectors_removed,
                "pending": one.pending,
            }
            for one in done
        ],
    }


def _name(identity: str | None) -> str | None:
    """Return the name in an embedder's identity."""
    from engram.embedding.port import EmbedderIdentity

    return None if identity is None else EmbedderIdentity.from_text(identity).name


def _print_plans(plans: Sequence[ReembeddingPlan], chosen: Settings) -> None:
    from engram.transport.cli.output import notice, show_table

    show_table(
        ("ORGANISATION", "NAME", "VECTORS OF", "HALF BUILT", "MESSAGES", "TO EMBED", "PASSAGES"),
        (
            (
                view["organization_id"],
                view["name"],
                view["deep"] or "nobody",
                view["half_built"] or "",
                f"{view['messages']:,}",
                f"{view['messages_to_embed']:,}",
                f"about {view['passages_estimated']:,}",
            )
            for view in map(_plan_view, plans)
        ),
    )
    notice(f"nothing was changed; without --dry-run, {chosen.embedder} embeds these messages")


def _print_done(done: Sequence[Reembedded], chosen: Settings) -> None:
    from engram.transport.cli.output import notice, say

    for one in done:
        say(visible_line(f"{one.organization_id}  {_sentence(one)}"))
        if one.pending:
            notice(f"{counted(one.pending, 'message')} wait for vectors: run `engram index`")
    notice(f"the vectors are of {chosen.embedder}")


def _sentence(one: Reembedded) -> str:
    """Return what was done with an organisation, in words."""
    parts = [f"embedded {counted(one.embedded, 'message')}"] if one.embedded else []
    if one.dropped is not None:
        parts.append(f"gave up the half-built vectors of {_name(one.dropped)}")
    if one.vectors_removed:
        parts.append(f"removed {counted(one.vectors_removed, 'old vector')}")
    if one.refused:
        parts.append(f"{counted(one.refused, 'message')} got no vector")
    return ", ".join(parts) or "nothing to do"
