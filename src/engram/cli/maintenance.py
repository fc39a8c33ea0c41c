"""`engram doctor`, `index`, `reindex` and `reembed`: verify the store and rebuild derived data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engram.cli.invocation import FAILED, Invocation
from engram.cli.options import DryRun, OneOrganization, shared_options
from engram.cli.output import (
    counted,
    print_line,
    print_notice,
    progress,
    show_table,
    styled,
    visible_line,
)
from engram.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.model.access import Organization
    from engram.model.ids import OrganizationId
    from engram.model.status import Finding
    from engram.service import Service
    from engram.service.work.reembedding import Reembedded, ReembeddingPlan
    from engram.settings import Settings


Repair = Annotated[bool, typer.Option("--repair", help="Rebuild derived data that is damaged.")]


@shared_options
def doctor(invocation: Invocation, *, repair: Repair = False) -> None:
    """Verify the integrity of the store.

    Checks in every organisation: the file, the hash of each message, counters, sequences, chunks,
    word indexes, vectors and jobs.

    Examples:
      engram doctor
      engram doctor --repair
      engram doctor --json | jq '.findings[].message'

    Exits with 1 if problems remain. Stored messages are never changed: --repair
    rebuilds only what is derived from them (counters, chunks, indexes).
    """
    report = invocation.run(lambda service: _examine_all(service, repair=repair))
    invocation.show(report.as_json(), lambda: _print_report(report))
    if report.remaining:
        raise SystemExit(FAILED)


@dataclass(slots=True)
class _Report:
    """The problems found, and those that remain after repair."""

    organizations: int
    findings: list[Finding] = field(default_factory=list["Finding"])
    remaining: list[Finding] = field(default_factory=list["Finding"])
    repaired: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "organizations": self.organizations,
            "findings": [_finding_view(finding) for finding in self.findings],
            "repaired": self.repaired,
            "remaining": [_finding_view(finding) for finding in self.remaining],
        }


async def _examine_all(service: Service, *, repair: bool) -> _Report:
    organizations = await service.doctor.patients()
    report = _Report(organizations=len(organizations))
    with progress("Checking organisations", total=len(organizations)) as advance:
        for organization in organizations:
            await _examine(service, organization, report, repair=repair)
            advance(1)
    return report


async def _examine(
    service: Service, organization: Organization, report: _Report, *, repair: bool
) -> None:
    found = [finding async for finding in service.doctor.examine(organization)]
    report.findings.extend(found)
    if repair and any(finding.repairable for finding in found):
        report.repaired += await service.doctor.repair(organization)
        found = [finding async for finding in service.doctor.examine(organization)]
    report.remaining.extend(found)


def _finding_view(finding: Finding) -> dict[str, Any]:
    return {
        "organization_id": finding.organization_id,
        "check": finding.check,
        "message": finding.message,
        "repairable": finding.repairable,
    }


def _print_report(report: _Report) -> None:
    _print_findings(report.findings)
    if report.repaired:
        print_line(f"repaired {counted(report.repaired, 'problem')}")
    if report.findings and not report.remaining:
        print_line("all problems are repaired")
    elif report.repaired:
        print_line("remaining problems:")
        _print_findings(report.remaining)
    elif not report.findings:
        print_line("no problems found")
    elif any(finding.repairable for finding in report.remaining):
        print_notice("run `engram doctor --repair` to rebuild derived data")
    print_notice(f"checked {counted(report.organizations, 'organisation')}")


def _print_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        kind = (
            styled("repairable", fg="yellow") if finding.repairable else styled("damaged", fg="red")
        )
        place = finding.organization_id or "engram.db"
        print_line(f"{place}  {finding.check}  {kind}  {visible_line(finding.message)}")


@shared_options
def index(invocation: Invocation) -> None:
    """Process the indexing queue of documents and vectors; servers do this themselves.

    Examples:
      engram index
      engram index --home /srv/engram --json
    """

    messages = invocation.run(_index_all)
    invocation.show(
        {"messages": messages},
        lambda: print_line(f"computed vectors for {counted(messages, 'message')}"),
    )


@shared_options
def reindex(invocation: Invocation) -> None:
    """Rebuild the chunks and word indexes of all messages.

    Examples:
      engram reindex
      engram reindex --home /srv/engram --json
    """

    messages = invocation.run(_reindex_all)
    invocation.show(
        {"messages": messages},
        lambda: print_line(f"rebuilt the indexes of {counted(messages, 'message')}"),
    )


async def _index_all(service: Service) -> int:
    messages, stats = 0, await service.operator.stats()
    total = sum(each.counters.pending for each in stats)
    with progress("Computing vectors", total=total) as advance:
        for each in stats:
            while await service.document_indexing.work(each.organization.id):
                pass  # this enqueues its chunks for vectors
            while done := await service.indexer.work(each.organization.id):
                advance(done)
                messages += done
    return messages


async def _reindex_all(service: Service) -> int:
    messages, stats = 0, await service.operator.stats()
    total = sum(each.counters.messages for each in stats)
    with progress("Rebuilding the indexes", total=total) as advance:
        for each in stats:
            read = await service.operator.reindex_organization(each.organization.id)
            advance(read)
            messages += read
    return messages


Model = Annotated[
    str | None,
    typer.Option(
        metavar="EMBEDDER",
        help="Embedder, in the form of ENGRAM_EMBEDDER. [default: the configured one]",
    ),
]


@shared_options
def reembed(
    invocation: Invocation,
    *,
    model: Model = None,
    org: OneOrganization = None,
    dry_run: DryRun = False,
) -> None:
    """Replace all vectors with those of another embedder.

    Examples:
      engram reembed --dry-run
      engram reembed --model local:bge-small-en-v1.5
      engram reembed --model openai:http://localhost:11434/v1#nomic-embed-text

    Servers keep running on the existing vectors. The new vectors take over when
    every message has one; then the old ones are removed. After an interruption,
    run the same command to resume; another --model discards the incomplete
    vectors. Servers search the new vectors once their ENGRAM_EMBEDDER names the
    same embedder; it may be set before or after.

    With the embedder in use, it computes the vectors that are missing: those of
    pending messages, and those of sentences in messages of an earlier version.
    """
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
        print_notice(f"set ENGRAM_EMBEDDER={chosen.embedder} to search these vectors")


async def _reembed_all(
    service: Service, organization_id: OrganizationId | None
) -> list[Reembedded]:
    plans = await service.reembedding.plan(organization_id)
    total = sum(plan.work.unmoved for plan in plans)
    done: list[Reembedded] = []
    with progress("Computing vectors", total=total) as advance:
        for plan in plans:
            try:
                one = await service.reembedding.reembed(plan.organization.id, advance=advance)
            except NotFoundError:
                continue  # deleted in the meantime
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
    """Return the embedder's name from its identity."""
    from engram.embedding.port import EmbedderIdentity

    return None if identity is None else EmbedderIdentity.from_text(identity).name


def _print_plans(plans: Sequence[ReembeddingPlan], chosen: Settings) -> None:
    show_table(
        ("ORGANISATION", "NAME", "VECTORS OF", "INCOMPLETE", "MESSAGES", "TO EMBED", "PASSAGES"),
        (
            (
                view["organization_id"],
                view["name"],
                view["deep"] or "none",
                view["half_built"] or "",
                f"{view['messages']:,}",
                f"{view['messages_to_embed']:,}",
                f"about {view['passages_estimated']:,}",
            )
            for view in map(_plan_view, plans)
        ),
    )
    print_notice(
        f"nothing was changed; run without --dry-run to embed these messages with {chosen.embedder}"
    )


def _print_done(done: Sequence[Reembedded], chosen: Settings) -> None:
    for one in done:
        print_line(visible_line(f"{one.organization_id}  {_sentence(one)}"))
        if one.pending:
            print_notice(
                f"{counted(one.pending, 'message')} pending; run `engram index` to compute their vectors"
            )
    print_notice(f"the vectors now come from {chosen.embedder}")


def _sentence(one: Reembedded) -> str:
    """Summarise the re-embedding of an organisation."""
    parts = [f"embedded {counted(one.embedded, 'message')}"] if one.embedded else []
    if one.dropped is not None:
        parts.append(f"discarded the incomplete vectors of {_name(one.dropped)}")
    if one.vectors_removed:
        parts.append(f"removed {counted(one.vectors_removed, 'old vector')}")
    if one.refused:
        parts.append(f"{counted(one.refused, 'message')} got no vector")
    return ", ".join(parts) or "nothing to do"
