"""Keys: who may do what, which clients use them; made, rotated and revoked."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta

from engram import limits
from engram.api.account import KeyCreated, KeyRotated
from engram.api.deliveries import DeliveriesListed
from engram.errors import InvalidRequestError
from engram.model.access import TOOLSETS, ApiKey, KeyRequests, KeyUsage
from engram.model.reminder import REMINDERS, Delivery
from engram.model.value import Value, computed, replace
from engram.page.view import Act, Done, Menu, Shown, Undo, View
from engram.page.visit import Visit

DAYS = 30
"""Of requests that are shown."""

DAYS_MAX = 3_650
"""Of a new key's life; one without an end is left without days."""


class KeyRow(Value):
    """A key, and what is known of its use."""

    key: ApiKey
    is_live: bool
    is_own: bool
    """True if whoever looks has signed in with it."""
    is_restorable: bool
    """True if it was revoked lately enough to be brought back."""
    clients: tuple[str, ...]
    """Names of the clients that have lately called a tool or REST with it."""
    days: tuple[KeyRequests, ...]
    """Its requests on the last days, the oldest first, without gaps."""

    @computed
    def requests(self) -> int:
        """Return how many requests came with it on these days."""
        return sum(each.requests for each in self.days)


class KeysPage(Value):
    """The keys of an organisation: those that work first, and of them the newest."""

    keys: tuple[KeyRow, ...]
    toolsets: tuple[str, ...] = TOOLSETS
    restorable_min: int = limits.KEY_RESTORE_S_MAX // 60
    """Minutes for which a revoked key can be brought back."""


class NewKeyPage(Value):
    """A new key, whose secret is shown this once."""

    made: KeyCreated


async def load(visit: Visit) -> KeysPage:
    """Return every key with what is known of its use."""
    listed: tuple[ApiKey, ...] = (await visit.call("list_keys")).keys
    clients = await _clients(visit)
    used: tuple[KeyUsage, ...] = (await visit.call("key_usage", days=DAYS)).keys
    days = {each.key_id: _without_gaps(visit.now.date(), each.days) for each in used}
    unused = _without_gaps(visit.now.date(), ())
    rows = [
        KeyRow(
            key=key,
            is_live=key.is_live(visit.now),
            is_own=key.id == visit.principal.actor,
            is_restorable=_is_restorable(key, visit.now),
            clients=clients.get(key.id, ()),
            days=days.get(key.id, unused),
        )
        for key in listed
    ]
    rows.sort(key=lambda row: (row.is_live, row.key.created_at, row.key.id), reverse=True)
    return KeysPage(keys=tuple(rows))


def _is_restorable(key: ApiKey, now: datetime) -> bool:
    if key.revoked_at is None or not replace(key, revoked_at=None).is_live(now):
        return False
    return now - key.revoked_at <= timedelta(seconds=limits.KEY_RESTORE_S_MAX)


def _without_gaps(today: date, counted: Iterable[KeyRequests]) -> tuple[KeyRequests, ...]:
    known = {each.day: each.requests for each in counted}
    days = [(today - timedelta(days=back)).isoformat() for back in reversed(range(DAYS))]
    return tuple(KeyRequests(day=day, requests=known.get(day, 0)) for day in days)


async def _clients(visit: Visit) -> dict[str, tuple[str, ...]]:
    """Return the clients of keys, as far as the newest rows of the log tell."""
    if not visit.allows("read"):
        return {}
    listed: DeliveriesListed = await visit.call("list_deliveries", limit=limits.DELIVERY_PAGE_MAX)
    return _by_key(listed.deliveries)


def _by_key(deliveries: Iterable[Delivery]) -> dict[str, tuple[str, ...]]:
    found = dict[str, dict[str, None]]()
    for each in deliveries:
        if each.event not in REMINDERS and each.client != each.session:
            found.setdefault(each.session, {})[each.client] = None
    return {key: tuple(clients) for key, clients in found.items()}


async def create(visit: Visit) -> Shown:
    """Make a key of the form's name, scopes and lifetime."""
    made = await visit.call(
        "create_key",
        name=visit.sent("name"),
        scopes=visit.all_sent("scopes"),
        toolsets=visit.all_sent("toolsets") or None,
        expires_at=_expiry(visit),
    )
    return Shown(template="key_made.html", page=NewKeyPage(made=made))


def _expiry(visit: Visit) -> datetime | None:
    days = visit.sent("days")
    if not days:
        return None
    if not days.isdecimal() or not 1 <= int(days) <= DAYS_MAX:
        raise InvalidRequestError(f"must be 1 to {DAYS_MAX}, or empty", field="days")
    return visit.now + timedelta(days=int(days))


async def rotate(visit: Visit) -> Shown:
    """Replace a key by one that is like it, and show the new secret."""
    made: KeyRotated = await visit.call(
        "rotate_key", key_id=visit.parameters["key_id"], overlap_s=visit.sent("overlap_s")
    )
    return Shown(template="key_made.html", page=NewKeyPage(made=made))


async def revoke(visit: Visit) -> Done:
    """Revoke a key, which can be undone for some minutes."""
    revoked: ApiKey = await visit.call("revoke_key", key_id=visit.parameters["key_id"])
    return Done(
        to="/keys",
        notice=f"“{revoked.name}” ({revoked.prefix}…) is revoked.",
        undo=Undo(action=f"/keys/{revoked.id}/restore"),
    )


async def restore(visit: Visit) -> Done:
    """Make a key work again that was just revoked."""
    restored: ApiKey = await visit.call("restore_key", key_id=visit.parameters["key_id"])
    return Done(
        to="/keys",
        notice=f"“{restored.name}” ({restored.prefix}…) works again.",
        undo=Undo(action=f"/keys/{restored.id}/revoke"),
    )


VIEWS = (
    View(
        path="/keys",
        template="keys.html",
        load=load,
        scopes=("admin",),
        menu=Menu(label="Keys", place="more"),
    ),
)
ACTS = (
    Act(path="/keys/new", run=create, scopes=("admin",)),
    Act(path="/keys/{key_id}/rotate", run=rotate, scopes=("admin",)),
    Act(path="/keys/{key_id}/revoke", run=revoke, scopes=("admin",)),
    Act(path="/keys/{key_id}/restore", run=restore, scopes=("admin",)),
)
