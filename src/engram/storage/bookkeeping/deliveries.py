"""The log of what agents were given: bounded, and read by nothing but people."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import date, datetime, timedelta

from engram import limits
from engram.clock import from_microseconds, to_microseconds
from engram.model.reminder import Delivery, DeliveryDay
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import Tenant, Transaction

_SQL = load_queries("bookkeeping/deliveries.sql")
_END_OF_TIME = 2**63 - 1
_EPOCH = date(1970, 1, 1)
_DAY = 86_400_000_000


async def record_deliveries(tenant: Tenant, deliveries: Iterable[Delivery]) -> None:
    """Add rows, and drop the oldest beyond the bound."""

    def add(tx: Transaction) -> None:
        for delivery in deliveries:
            _add(tx, delivery)
        tx.execute(_SQL["drop_old_deliveries"], kept=limits.DELIVERIES_KEPT)

    await tenant.write(add)


def _add(tx: Transaction, delivery: Delivery) -> None:
    tx.execute(
        _SQL["add_delivery"],
        now=to_microseconds(delivery.at),
        client=delivery.client,
        session=delivery.session,
        event=delivery.event,
        query=delivery.query,
        shown=json.dumps(delivery.shown),
        bytes=delivery.bytes,
        tokens=delivery.tokens,
    )


async def list_deliveries(
    tenant: Tenant,
    *,
    limit: int,
    before: datetime | None = None,
    client: str | None = None,
    events: Iterable[str] | None = None,
) -> tuple[Delivery, ...]:
    """Return the newest rows older than `before`, newest first, of a client or of some events."""
    bounds = {
        "before": _END_OF_TIME if before is None else to_microseconds(before),
        "any_client": int(client is None),
        "client": client or "",
        "any_event": int(events is None),
        "events": json.dumps([*(events or ())]),
    }
    rows = await tenant.read(
        lambda tx: tx.execute(_SQL["list_deliveries"], **bounds, limit=limit).fetchall()
    )
    return tuple(
        Delivery(
            at=from_microseconds(at),
            client=client,
            session=session,
            event=event,
            query=query,
            shown=tuple(json.loads(shown)),
            bytes=size,
            tokens=tokens,
        )
        for at, client, session, event, query, shown, size, tokens in rows
    )


async def delivered_by_day(tenant: Tenant, *, since: date) -> tuple[DeliveryDay, ...]:
    """Return what the rows of each day since then add up to, the newest first."""
    days = (since - _EPOCH).days
    rows = await tenant.read(
        lambda tx: tx.execute(_SQL["delivered_by_day"], since=days * _DAY).fetchall()
    )
    return tuple(
        DeliveryDay(day=_EPOCH + timedelta(days=day), deliveries=deliveries, tokens=tokens)
        for day, deliveries, tokens in rows
    )
