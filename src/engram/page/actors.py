"""Names of API keys, to show instead of their ids."""

from __future__ import annotations

from engram.api.account import KeysListed
from engram.page.visit import Visit


async def key_names(visit: Visit) -> dict[str, str]:
    """Return the key names of an organisation by key id; empty for a visitor without the admin scope."""
    if not visit.allows("admin"):
        return {}
    listed: KeysListed = await visit.call("list_keys")
    return {key.id: key.name for key in listed.keys}
