"""Where an import stores, on whose behalf, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from engram import limits
from engram.errors import InvalidRequestError, NotFoundError
from engram.model.access import Quota
from engram.model.conversation import MessageDraft
from engram.model.document import Document, DocumentLimits
from engram.model.export import ImportProblem, ImportReceipt, ItemKind
from engram.model.ids import MemoryId
from engram.model.row_keys import RecordKind
from engram.model.vectors import Indexing
from engram.storage.bookkeeping import audit
from engram.storage.organization import OrganizationStore
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Transaction

SQL = load_queries("importing.sql", package="engram.transfer")

T = TypeVar("T")

Titled = tuple[MessageDraft, str | None]
"""A message, and the title of its conversation if it is searched by that."""

Index = Callable[[Sequence[Titled], RecordKind], Awaitable[Indexing]]
"""Returns the instant vectors of new messages."""


@dataclass
class Outcome:
    """Counts what an import did, and lists what it did not."""

    stored: Counter[ItemKind] = field(default_factory=Counter[ItemKind])
    present: Counter[ItemKind] = field(default_factory=Counter[ItemKind])
    erased: int = 0
    conflicts: int = 0
    refused: int = 0
    problems: list[ImportProblem] = field(default_factory=list[ImportProblem])

    def conflict(self, kind: ItemKind, id_: str, reason: str) -> None:
        """Count something that is here with other content."""
        self.conflicts += 1
        self._list(kind, id_, reason)

    def refuse(self, kind: ItemKind, id_: str, reason: str) -> None:
        """Count something that cannot be stored here."""
        self.refused += 1
        self._list(kind, id_, reason)

    def receipt(self, **fields: Any) -> ImportReceipt:
        """Return what the caller is told."""
        return ImportReceipt(
            stored=dict(sorted((+self.stored).items())),
            present=dict(sorted((+self.present).items())),
            erased=self.erased,
            conflicts=self.conflicts,
            refused=self.refused,
            problems=tuple(self.problems),
            **fields,
        )

    def _list(self, kind: ItemKind, id_: str, reason: str) -> None:
        if len(self.problems) < limits.IMPORT_PROBLEMS_LISTED:
            self.problems.append(ImportProblem(kind=kind, id=id_, reason=reason))


@dataclass(frozen=True, kw_only=True)
class Target:
    """The organisation that an import stores in."""

    store: OrganizationStore
    actor: str
    quota: Quota
    index: Index
    document_stored: Callable[[Document], Awaitable[None]]
    """Called when a document is durable, to have it indexed."""
    document_limits: DocumentLimits
    outcome: Outcome = field(default_factory=Outcome)

    async def each(
        self,
        items: Sequence[T],
        work: Callable[[Sequence[T]], Awaitable[None]],
        *,
        named: Callable[[T], tuple[ItemKind, str]],
    ) -> None:
        """Store items together; if one of them cannot be stored, each by itself, and list that one."""
        try:
            await work(items)
        except (InvalidRequestError, NotFoundError) as exc:
            if len(items) == 1:
                kind, id_ = named(items[0])
                self.outcome.refuse(kind, id_, str(exc))
                return
            for item in items:
                await self.each([item], work, named=named)


def record_import(tx: Transaction, actor: str, **details: object) -> None:
    """Write the audit row of a transaction of an import."""
    audit.record(tx, now=tx.tenant.now(), actor=actor, action="import", details=details)


def is_erased(tx: Transaction, memory_id: MemoryId) -> bool:
    """Return True if a memory was removed here, for good or into the trash."""
    return tx.execute(SQL["find_tombstone"], id=memory_id).fetchone() is not None
