"""`engram doctor`: whether the store is whole, and mending what derives from what was said."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engram.transport.cli.failures import FAILED
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import shared_options
from engram.transport.cli.visible import counted, visible_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engram.model.access import Organization
    from engram.model.status import Finding
    from engram.service import Service

EXAMPLES = """\b
Examples:
  engram doctor
  engram doctor --repair
  engram doctor --json | jq '.findings[].message'
\b
Exits with 1 when something is wrong and stays wrong. What was said is never
changed: --repair rebuilds what derives from it (counters, chunks, indexes).
"""

Repair = Annotated[bool, typer.Option("--repair", help="Rebuild what can be derived.")]


@shared_options
def doctor(invocation: Invocation, *, repair: Repair = False) -> None:
    """Prove that the store is whole.

    In every organisation: the file, the hash of each message, counters, sequences, chunks, word
    indexes, vectors and jobs.
    """
    report = invocation.run(lambda service: _examine_all(service, repair=repair))
    invocation.show(report.as_json(), lambda: _print_report(report))
    if report.remaining:
        raise SystemExit(FAILED)


@dataclass(slots=True)
class _Report:
    """What was found wrong, and what still is."""

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
    from engram.transport.cli.progress import progress

    patients = await service.doctor.patients()
    report = _Report(organizations=len(patients))
    with progress("Checking organisations", total=len(patients)) as advance:
        for organization in patients:
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
    from engram.transport.cli.output import notice, say

    _print_findings(report.findings)
    if report.repaired:
        say(f"mended {counted(report.repaired, 'finding')}")
    if report.findings and not report.remaining:
        say("everything is mended")
    elif report.repaired:
        say("still wrong:")
        _print_findings(report.remaining)
    elif not report.findings:
        say("no problem found")
    elif any(finding.repairable for finding in report.remaining):
        notice("`engram doctor --repair` rebuilds what can be derived")
    notice(f"checked {counted(report.organizations, 'organisation')}")


def _print_findings(findings: Sequence[Finding]) -> None:
    from engram.transport.cli.output import paint, say

    for finding in findings:
        kind = (
            paint("repairable", fg="yellow") if finding.repairable else paint("damaged", fg="red")
        )
        place = finding.organization_id or "engram.db"
        say(f"{place}  {finding.check}  {kind}  {visible_line(finding.message)}")
