"""Use cases about how an organisation's store fares."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial

from engram import limits
from engram.backup.record import read_record_leniently
from engram.model.access import Principal
from engram.model.health import Examination, HealthReport
from engram.model.status import Finding
from engram.service import Tools, UseCases
from engram.service.organizations import Account, Doctor
from engram.sources.ledger import read_imports


class Health(UseCases):
    """The state of work, models, backups and imports, and an examination within bounds."""

    def __init__(self, tools: Tools, account: Account, doctor: Doctor) -> None:
        super().__init__(tools)
        self._account = account
        self._doctor = doctor
        self._examining = asyncio.Lock()
        """One at a time: each reads everything that is stored."""

    async def report(self, principal: Principal) -> HealthReport:
        """Return how the organisation's store fares; what concerns the server only to an admin."""
        status = await self._account.status(principal)
        store = await self._open(principal, "read")
        home, is_admin = self._tools.home, principal.allows("admin")
        imports = partial(read_imports, home, organization=principal.organization_id)
        return HealthReport(
            pending=status.counters.pending,
            degraded=status.degraded,
            embedder=status.embedder,
            models=await store.identities(),
            scrub=status.scrub,
            jobs=await store.list_jobs(limit=limits.JOBS_SHOWN_MAX),
            backups=await asyncio.to_thread(read_record_leniently, home) if is_admin else None,
            sources=await asyncio.to_thread(imports) if is_admin else None,
        )

    async def examine(self, principal: Principal) -> Examination:
        """Return what is wrong with the organisation's store, as far as the bounds allow."""
        principal.require("admin")
        control = self._tools.store.control
        organization = await control.get_organization(principal.organization_id)
        findings, most = list[Finding](), limits.FINDINGS_SHOWN_MAX
        try:
            async with (
                asyncio.timeout(limits.EXAMINATION_S),
                self._examining,
                aclosing(self._doctor.examine(organization)) as found,
            ):
                async for finding in found:
                    if len(findings) == most:
                        return _ended(findings, f"{most} findings")
                    findings.append(finding)
        except TimeoutError:
            return _ended(findings, f"{limits.EXAMINATION_S} s")
        return Examination(findings=tuple(findings), is_complete=True, bound=None)


def _ended(findings: list[Finding], bound: str) -> Examination:
    return Examination(findings=tuple(findings), is_complete=False, bound=bound)
