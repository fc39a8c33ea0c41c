"""Deleting an organisation, with a receipt of what is gone."""

from __future__ import annotations

from engram.errors import InvalidRequestError
from engram.model.access import AccountDeletion
from engram.model.ids import OrganizationId
from engram.storage.store import Store


async def delete_organization(
    store: Store, organization_id: OrganizationId, *, name: str | None, actor: str
) -> AccountDeletion:
    """Remove an organisation, its keys and everything it stored.

    Raises:
        NotFoundError: the id is unknown.
        InvalidRequestError: `name` is given and is not its name.
    """
    organization = await store.control.get_organization(organization_id)
    if name is not None and name != organization.name:
        message = f"must be the organisation's name, {organization.name!r}, to delete it"
        raise InvalidRequestError(message, field="organization")
    counters = await (await store.organization(organization_id)).counters()
    removed = {
        "conversations": counters.conversations,
        "messages": counters.messages_of_conversations,
        "memories": counters.memories,
        "documents": counters.documents,
        "content_bytes": counters.content_bytes,
    }
    receipt = await store.control.delete_organization(organization_id, actor=actor, details=removed)
    return AccountDeletion(
        receipt=receipt.id,
        organization_id=organization_id,
        deleted_at=receipt.at,
        removed={**removed, "keys": receipt.details["keys"]},
    )
