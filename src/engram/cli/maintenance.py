"""`engram doctor`, `index`, `reindex`, `reembed`, `status`, `limits`, `version`: the store and its derived data."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from engram import limits as bounds
from engram.cli.clients import check_clients
from engram.cli.invocation import FAILED, Invocation
from engram.cli.operations import call
from engram.cli.options import DryRun, OneOrganization, shared_options
from engram.cli.output import (
    counted,
    explain_degraded,
    print_line,
    print_notice,
    print_wrapped,
    progress,
    short_time,
    show_table,
    styled,
    visible_line,
)
from engram.clock import format_time
from engram.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.api.account import StatusView
    from engram.model.access import Organization
    from engram.model.backup import KnownDestination
    from engram.model.ids import OrganizationId
    from engram.model.status import Finding
    from engram.service import Service
    from engram.service.work.reembedding import Reembedded, ReembeddingPlan
    from engram.settings import Settings


Repair = Annotated[bool, typer.Option("--repair", help="Rebuild derived data that is damaged.")]
Accept = Annotated[
    bool,
    typer.Option(
        "--accept",
        help="Go on with files that are older or others than they were, or were sealed by a move.",
    ),
]


Part = Annotated[
    Literal["clients"] | None,
    typer.Argument(metavar="clients", help="Check the connected clients, not the store."),
]


@shared_options
def doctor(
    invocation: Invocation,
    part: Part = None,
    *,
    repair: Repair = False,
    accept: Accept = False,
) -> None:
    """Verify the integrity of the store, or check the clients.

    Checks in every organisation: the file, the hash of each text and of each row, counters, sequences,
    chunks, word indexes, vectors and jobs; and that every file is the one that was written, and no older. Rows that an older version stored get their hash with --repair.

    Examples:
      engram doctor
      engram doctor --repair
      engram doctor --accept
      engram doctor clients
      engram doctor --json | jq '.findings[].message'

    Exits with 1 if problems remain. Stored messages are never changed: --repair
    rebuilds only what is derived from them (counters, chunks, indexes).
    --accept is for files that you put there yourself: what they lack is not
    missed any more. It is written to the audit trail. A backup that
    `engram restore` has restored needs no --accept.
    Unknown types of records that imports have met are shown as well: a program
    has changed its format, and a newer Engram may know it.
    `clients` starts what each connected client would start, and compares its
    entry with what `engram connect` would write now.
    """
    from engram.sources.ledger import read_drift

    if part == "clients":
        check_clients(invocation)
        return
    report = invocation.run(lambda service: examine_store(service, repair=repair), accept=accept)
    report.drift = read_drift(invocation.settings().home)
    report.backups = _known_backups(invocation)
    invocation.show(report.as_json(), lambda: _print_report(report))
    if report.remaining:
        raise SystemExit(FAILED)


@dataclass(slots=True)
class Report:
    """The problems found, and those that remain after repair."""

    organizations: int
    findings: list[Finding] = field(default_factory=list["Finding"])
    remaining: list[Finding] = field(default_factory=list["Finding"])
    repaired: int = 0
    unhashed: int = 0
    hashed: int = 0
    drift: Mapping[str, Mapping[str, int]] = field(default_factory=dict[str, Mapping[str, int]])
    """Records of unknown types that imports have met, by source."""
    backups: tuple[KnownDestination, ...] | None = None
    """Where backups were made; None for a database, which is backed up by its own tools."""

    def as_json(self) -> dict[str, Any]:
        return {
            "organizations": self.organizations,
            "findings": [_finding_view(finding) for finding in self.findings],
            "repaired": self.repaired,
            "unhashed": self.unhashed,
            "hashed": self.hashed,
            "remaining": [_finding_view(finding) for finding in self.remaining],
            "drift": self.drift,
            "backups": self.backups,
        }


async def examine_store(service: Service, *, repair: bool) -> Report:
    """Return what is wrong with the store of a service, organisation by organisation."""
    organizations = await service.doctor.patients()
    report = Report(organizations=len(organizations))
    control = await service.doctor.examine_control()
    report.findings.extend(control)
    report.remaining.extend(control)
    with progress("Checking organisations", total=len(organizations)) as advance:
        for organization in organizations:
            await _examine(service, organization, report, repair=repair)
            advance(1)
    found = await service.doctor.examine_files()
    report.findings.extend(found)
    report.remaining.extend(found)
    if not report.remaining:
        if repair:
            report.hashed = await service.doctor.hash_rows()
        report.unhashed = await service.doctor.count_unhashed()
    return report


async def _examine(
    service: Service, organization: Organization, report: Report, *, repair: bool
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


def _print_report(report: Report) -> None:
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
    if report.hashed:
        print_line(f"hashed {counted(report.hashed, 'row')} that an older version has stored")
    if report.unhashed:
        rows = counted(report.unhashed, "row")
        print_notice(
            f"{rows} of an older version have no hash yet: `engram doctor --repair` adds it"
        )
    for source, kinds in report.drift.items():
        named = ", ".join(f"{visible_line(kind)} ({count:,})" for kind, count in kinds.items())
        print_notice(f"imports from {source} met unknown types of records: {named}")
    _print_backups(report.backups)
    print_notice(f"checked {counted(report.organizations, 'organisation')}")


def _known_backups(invocation: Invocation) -> tuple[KnownDestination, ...] | None:
    """Return where backups of a local directory were made; None if there is none."""
    from engram.backup.record import read_record_leniently

    settings = invocation.loaded()
    if settings.url is not None or settings.database_url is not None:
        return None
    return read_record_leniently(settings.home)


def _print_backups(known: tuple[KnownDestination, ...] | None) -> None:
    if known is None:
        return
    for each in known:
        newest = each.backups[-1].instant if each.backups else None
        made = "no backup" if newest is None else f"last backup {short_time(newest)}"
        failed = "" if each.failure is None else f"; the last attempt failed: {each.failure}"
        print_notice(visible_line(f"{made} in {each.place}{failed}"))
    if not known:
        print_notice("no backup was made yet: `engram backup DIR` makes one")


def _print_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        if finding.check == "availability":
            kind = styled("unavailable", fg="yellow")
        elif finding.repairable:
            kind = styled("repairable", fg="yellow")
        else:
            kind = styled("damaged", fg="red")
        place = finding.organization_id or "store"
        print_wrapped(f"{place}  {finding.check}  {kind}  {visible_line(finding.message)}")


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
    messages = 0
    with progress("Indexing documents") as advance:
        for each in await service.operator.stats():
            while await service.document_indexing.work(each.organization.id):
                advance(1)  # this enqueues its chunks for vectors
    stats = await service.operator.stats()
    total = sum(each.counters.pending for each in stats)
    with progress("Computing vectors", total=total) as advance:
        for each in stats:
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
"""Counters shown by `engram status`, in order."""


@shared_options
def status(invocation: Invocation) -> None:
    """Show what is stored and which embedder search uses.

    Examples:
      engram status
      engram status --json | jq .messages
    """
    answer: StatusView = call(invocation, "status", {})
    invocation.show(answer, lambda: _print_status(invocation, answer))


@shared_options
def limits(invocation: Invocation) -> None:
    """List every limit with its value and its reason.

    Examples:
      engram limits
      engram limits --json | jq '.limits.MESSAGE_BYTES_MAX.value'
    """

    rows = list(read_limits())
    answer = {name: {"value": value, "reason": reason} for name, value, reason in rows}
    invocation.show(
        {"limits": answer},
        lambda: show_table(
            ("LIMIT", "VALUE", "WHY"), ((name, f"{value:,}", why) for name, value, why in rows)
        ),
    )


@shared_options
def version(invocation: Invocation) -> None:
    """Show the versions of Engram, Python and SQLite.

    Examples:
      engram version
      engram version --json
    """
    import platform
    import sqlite3

    from engram import __version__

    answer = {
        "engram": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    invocation.show(
        answer,
        lambda: print_line(
            f"engram {answer['engram']} (Python {answer['python']}, SQLite {answer['sqlite']})"
        ),
    )


def read_limits() -> Iterator[tuple[str, int | float, str]]:
    """Yield the name, value and reason of each limit; the reason is the string literal below it."""
    statements = ast.parse(inspect.getsource(bounds)).body
    for statement, following in itertools.pairwise(statements):
        match statement, following:
            case (
                ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(reason))),
            ):
                yield name, getattr(bounds, name), " ".join(reason.split())
            case _:
                pass


def _print_status(invocation: Invocation, answer: StatusView) -> None:
    from engram import __version__

    print_line(f"Engram {__version__}, store {visible_line(str(invocation.store_place))}")
    for name in COUNTED:
        print_line(f"  {name.replace('_', ' '):<16}{getattr(answer, name):>16,}")
    print_line(f"  {'embedder':<16}{answer.embedder or 'none':>16}")
    scrubbed = "never" if answer.scrubbed_at is None else format_time(answer.scrubbed_at)[:16]
    print_line(f"  {'last scrubbed':<16}{scrubbed:>16}")
    if (known := _known_backups(invocation)) is not None:
        newest = max((each.instant for one in known for each in one.backups), default=None)
        backed_up = "never" if newest is None else format_time(newest)[:16]
        print_line(f"  {'last backup':<16}{backed_up:>16}")
    for name in answer.degraded:
        print_wrapped(explain_degraded(name))
    if answer.faults:
        print_line(f"{counted(answer.faults, 'damaged row')}: run `engram doctor`")
