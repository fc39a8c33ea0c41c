"""What use cases share: the parts of a running installation, and opening the caller's store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.model.value import Value

if TYPE_CHECKING:
    from pathlib import Path

    from engram.clock import Clock
    from engram.embedding.tiers import Tiers
    from engram.language import LanguageModel
    from engram.model.access import KeyScope, Principal
    from engram.service.access.audit_trail import AuditTrail
    from engram.service.access.credentials import Access
    from engram.service.access.usage import Activity, UsageMeter
    from engram.service.work.background import Background
    from engram.service.work.document_indexing import DocumentIndexing
    from engram.service.work.indexing import Indexer
    from engram.storage.organization import OrganizationStore
    from engram.storage.store import Store


class Tools(Value):
    """The parts of a running installation, built once by `engram.wiring`."""

    store: Store
    tiers: Tiers
    language: LanguageModel | None
    clock: Clock
    access: Access
    activity: Activity
    trail: AuditTrail
    meter: UsageMeter
    background: Background
    document_indexing: DocumentIndexing
    indexer: Indexer
    data_directory: Path | None
    document_bytes_max: int
    raw_document_bytes_max: int


class UseCases:
    """Base of the classes whose methods are the use cases of one subject."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    async def _open(self, principal: Principal, *scopes: KeyScope) -> OrganizationStore:
        """Return the store of the principal's organisation if its key has all the scopes.

        Raises:
            AccessDeniedError: a scope is missing.
        """
        principal.require(*scopes)
        return await self._tools.store.organization(principal.organization_id)
