"""Who did something: the names of keys, for those who may know them."""

from __future__ import annotations

from engram.api.account import KeysListed
from engram.page.visit import Visit


async def key_names(visit: Visit) -> dict[str, str]:
    """Return the names of an organisation's keys by their ids; none for a visitor who is no admin."""
    if not visit.allows("admin"):
        return {}
    listed: KeysListed = await visit.call("list_keys")
    return {key.id: key.name for key in listed.keys}
