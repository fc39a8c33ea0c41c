"""Use cases of exports: everything of an organisation as one stream, and back."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence

from engram import __version__
from engram.clock import format_time
from engram.errors import EngramError
from engram.model.access import ApiKey, Principal
from engram.model.conversation import called
from engram.model.document import Document, DocumentLimits
from engram.model.export import ExportRequest, ImportReceipt
from engram.model.row_keys import RecordKind
from engram.model.value import plain, replace
from engram.model.vectors import Indexing
from engram.service import Tools, UseCases
from engram.service.access.usage import find_quota_warning
from engram.service.work.indexing import embedded_text
from engram.transfer.export_format import FORMAT, VERSION, Header, KeyEntry, Origin
from engram.transfer.export_lines import time_text
from engram.transfer.exporting import export_bytes
from engram.transfer.import_target import Target, Titled
from engram.transfer.importing import import_bytes

logger = logging.getLogger(__name__)


class Exports(UseCases):
    """Exports an organisation and imports what was exported."""

    async def export(self, principal: Principal, request: ExportRequest) -> AsyncIterator[bytes]:
        """Return an export as a stream; keys are named in it if the caller may see them.

        Raises:
            AccessDeniedError: the scope `read` is missing, or a toolset.
        """
        store = await self._open(principal, "read")
        _require_toolsets(principal, request)
        header = await self._header(principal, request)
        await self._tools.trail.record(principal, "export", **header.filters)
        return export_bytes(store, request, header)

    async def import_stream(
        self, principal: Principal, body: AsyncIterator[bytes]
    ) -> ImportReceipt:
        """Store an export; ids are kept, and what is here already is not stored again.

        A caller that may not read is told how much was refused, and nothing else.

        Raises:
            AccessDeniedError: the scope `write` is missing, or a toolset.
            InvalidRequestError: it is no export, or damaged or incomplete; what came before is stored.
            QuotaExceededError: the quota is used up; what came before is stored.
        """
        store = await self._open(principal, "write")
        _require_toolsets(principal, ExportRequest())
        importing = _Importing(self._tools, principal)
        target = Target(
            store=store,
            actor=principal.actor,
            quota=principal.quota,
            index=importing.index,
            document_stored=importing.index_document,
            document_limits=DocumentLimits(
                body_bytes_max=self._tools.document_bytes_max,
                raw_bytes_max=self._tools.raw_document_bytes_max,
            ),
        )
        try:
            receipt = await import_bytes(target, body, begun=importing.begin)
        finally:
            self._tools.background.announce_work(principal.organization_id)
        warning = await find_quota_warning(principal, store)
        if not principal.allows("read"):
            # Whoever may not read could find out by guessing what is stored.
            return ImportReceipt(
                stored={}, present={}, refused=receipt.refused, quota_warning=warning
            )
        return replace(receipt, quota_warning=warning)

    async def _header(self, principal: Principal, request: ExportRequest) -> Header:
        owner, control = principal.organization_id, self._tools.store.control
        organization = await control.get_organization(owner)
        keys = await control.list_keys(owner) if principal.allows("admin") else ()
        filters = {name: getattr(request, name) for name in ExportRequest.__struct_fields__}
        return Header(
            format=FORMAT,
            version=VERSION,
            exported_at=format_time(self._tools.clock.now()),
            engram=__version__,
            organization=Origin(
                id=owner,
                name=organization.name,
                messages_max=organization.quota.messages_max,
                bytes_max=organization.quota.bytes_max,
            ),
            filters=plain(
                {name: value for name, value in filters.items() if value and name != "compression"}
            ),
            keys=tuple(map(_key_entry, keys)),
        )


class _Importing:
    """What an import asks of this installation."""

    def __init__(self, tools: Tools, principal: Principal) -> None:
        self._tools = tools
        self._principal = principal

    async def begin(self, header: Header) -> None:
        """Record the import before it stores anything."""
        origin = {"organization": header.organization.id, "exported_at": header.exported_at}
        await self._tools.trail.record(self._principal, "import", **origin)

    async def index(self, drafts: Sequence[Titled], kind: RecordKind) -> Indexing:
        """Return the instant vectors of messages."""
        texts = [
            embedded_text(draft, kind=kind, name=called(draft, title=title))
            for draft, title in drafts
        ]
        owner = self._principal.organization_id
        return await self._tools.indexer.index_texts(texts, organization_id=owner)

    async def index_document(self, document: Document) -> None:
        """Have a small document indexed before the import goes on, and a larger one afterwards."""
        if document.state != "indexing":
            return
        owner, tools = self._principal.organization_id, self._tools
        if document.tier > 0:
            tools.background.announce_work(owner, "documents")
            return
        try:
            await tools.document_indexing.finish(owner, document.id)
        except EngramError:
            # The document is stored; the background will index it.
            logger.exception("document %s is indexed later", document.id)
            tools.background.announce_work(owner, "documents")


def _require_toolsets(principal: Principal, request: ExportRequest) -> None:
    """Refuse a key that is limited to other toolsets than what is moved needs."""
    if request.holds("conversation"):
        principal.require_toolset("conversations")
    if request.holds("note", "document"):
        principal.require_toolset("memories")


def _key_entry(key: ApiKey) -> KeyEntry:
    return KeyEntry(
        id=key.id,
        name=key.name,
        prefix=key.prefix,
        scopes=key.scopes,
        toolsets=key.toolsets,
        created_at=format_time(key.created_at),
        expires_at=time_text(key.expires_at),
        revoked_at=time_text(key.revoked_at),
    )
