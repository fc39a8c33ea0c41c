"""How a store fares: its work in the background, its models, backups and imports, and what a doctor found."""

from __future__ import annotations

from datetime import datetime

from engram.model.backup import KnownDestination
from engram.model.status import Finding, ScrubState
from engram.model.value import Value
from engram.model.vectors import StoredIdentities


class JobState(Value):
    """A background job that waits or is at work."""

    kind: str
    subject: str
    attempts: int
    available_at: datetime
    """When it may be claimed; later than now after a failure."""
    lease_until: datetime | None
    """Until when a process has it; None if it waits."""


class ImportedSource(Value):
    """What was imported of one program's files."""

    source: str
    files: int
    imported_at: datetime


class HealthReport(Value):
    """How an organisation's store fares."""

    pending: int
    """Texts that wait for deep vectors."""
    degraded: tuple[str, ...]
    embedder: str | None
    """The deep model of this process."""
    models: StoredIdentities
    """The models that stored vectors were made by."""
    scrub: ScrubState
    jobs: tuple[JobState, ...]
    """The first of them."""
    backups: tuple[KnownDestination, ...] | None
    """None if the key is no admin's."""
    sources: tuple[ImportedSource, ...] | None
    """What the machine of the server has imported; None if the key is no admin's."""


class Examination(Value):
    """What a doctor found."""

    findings: tuple[Finding, ...]
    is_complete: bool
    """False if a bound ended it: then there may be more."""
    bound: str | None
    """The bound that ended it."""
