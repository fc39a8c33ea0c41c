"""Read and write the control tables of both sides: organisations, keys, audit, and the moves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from engram.errors import StorageError
from engram.model.ids import OrganizationId
from engram.storage.moving.rows import Key
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("moving/control.sql")

MoveState = Literal["copying", "stale", "done"]
"""`stale`: what was copied is not what the source has, so it is copied again."""


class OrganizationRow(NamedTuple):
    """The columns of `list_organizations`."""

    number: int
    id: OrganizationId
    name: str
    is_local: int
    messages_max: int | None
    bytes_max: int | None
    created_at: int


@dataclass(frozen=True, slots=True)
class Move:
    """How far the copy of an organisation has come, as its target knows it."""

    organization_id: OrganizationId
    number: int
    state: MoveState
    table: str | None
    """The table that was written last; those before it are complete."""
    last_key: Key | None


@dataclass(frozen=True, slots=True)
class ControlRows:
    """What the control tables say of an organisation."""

    keys: tuple[tuple[Any, ...], ...]
    audit: tuple[tuple[Any, ...], ...]
    usage: tuple[tuple[Any, ...], ...]


def list_organizations(connection: Connection) -> list[OrganizationRow]:
    """Return every organisation, oldest first."""
    return [OrganizationRow(*row) for row in connection.execute(_SQL["list_organizations"])]


def list_moves(connection: Connection) -> dict[OrganizationId, Move]:
    """Return every move to this database."""
    return {
        organization_id: Move(
            organization_id, number, state, table, None if key is None else tuple(json.loads(key))
        )
        for organization_id, number, state, table, key in connection.execute(_SQL["list_moves"])
    }


def begin_move(connection: Connection, organization_id: OrganizationId, *, now: int) -> Move:
    """Return the move of an organisation that was begun before, or begin one: it gets a number."""
    move = list_moves(connection).get(organization_id)
    if move is not None and move.state != "done":
        return move
    values = {"organization_id": organization_id, "now": now}
    number: int = connection.execute(_SQL["reserve"], values).fetchone()[0]
    connection.execute(_SQL["unreserve"], values)
    connection.execute(_SQL["begin_move"], {**values, "number": number})
    return Move(organization_id, number, "copying", None, None)


def restart_move(connection: Connection, move: Move, *, now: int) -> Move:
    """Note that the copy of an organisation begins anew."""
    values = {"organization_id": move.organization_id, "number": move.number, "now": now}
    connection.execute(_SQL["begin_move"], values)
    return Move(move.organization_id, move.number, "copying", None, None)


def advance_move(
    connection: Connection,
    organization_id: OrganizationId,
    *,
    table: str,
    last_key: Key,
    now: int,
) -> None:
    """Note what was copied last."""
    values = {
        "organization_id": organization_id,
        "table_name": table,
        "last_key": json.dumps(last_key),
        "now": now,
    }
    connection.execute(_SQL["advance_move"], values)


def mark_stale(connection: Connection, organization_id: OrganizationId, *, now: int) -> None:
    """Note that what was copied is not what the source has."""
    _change_state(connection, organization_id, "stale", now=now)


def read_control_rows(connection: Connection, organization_id: OrganizationId) -> ControlRows:
    """Return the keys, the audit and the use by day of an organisation."""
    values = {"organization_id": organization_id}
    return ControlRows(
        keys=tuple(connection.execute(_SQL["list_keys"], values).fetchall()),
        audit=tuple(connection.execute(_SQL["list_audit"], values).fetchall()),
        usage=tuple(connection.execute(_SQL["list_usage"], values).fetchall()),
    )


def publish(
    connection: Connection,
    move: Move,
    organization: OrganizationRow,
    rows: ControlRows,
    *,
    now: int,
) -> None:
    """Let an organisation that was copied be known, with its keys and its audit.

    Another process may have moved the same one, and done so.
    """
    if any(each.id == organization.id for each in list_organizations(connection)):
        return
    connection.execute(
        _SQL["add_organization"],
        {
            "number": move.number,
            "organization_id": organization.id,
            "name": organization.name,
            "is_local": organization.is_local,
            "messages_max": organization.messages_max,
            "bytes_max": organization.bytes_max,
            "created_at": organization.created_at,
        },
    )
    connection.executemany(_SQL["add_key"], [_named(_KEY_COLUMNS, row) for row in rows.keys])
    connection.executemany(_SQL["add_usage"], [_named(_USAGE_COLUMNS, row) for row in rows.usage])
    add_audit(connection, rows.audit)
    stored = read_control_rows(connection, organization.id)
    # An organisation that was here before has left its own audit.
    is_same = (stored.keys, stored.usage) == (rows.keys, rows.usage)
    if not is_same or not set(stored.audit).issuperset(rows.audit):
        raise StorageError(
            f"the keys, the audit or the use of {organization.id} were not stored as they are"
        )
    _change_state(connection, organization.id, "done", now=now)


def read_lost_audit(connection: Connection) -> tuple[tuple[Any, ...], ...]:
    """Return what was written down of organisations that are gone."""
    present = {organization.id for organization in list_organizations(connection)}
    gone = {row[0] for row in connection.execute(_SQL["list_audited"])} - present
    return tuple(
        row
        for organization_id in sorted(gone)
        for row in connection.execute(_SQL["list_audit"], {"organization_id": organization_id})
    )


def add_audit(connection: Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """Add audit rows that are not there yet."""
    connection.executemany(_SQL["add_audit"], [_named(_AUDIT_COLUMNS, row) for row in rows])


_KEY_COLUMNS = (
    "key_id",
    "organization_id",
    "name",
    "secret_hash",
    "prefix",
    "scopes",
    "created_at",
    "expires_at",
    "revoked_at",
    "last_used_at",
    "toolsets",
)
_USAGE_COLUMNS = (
    "organization_id",
    "day",
    "requests",
    "searches",
    "embedded_texts",
    "bytes_stored",
)
_AUDIT_COLUMNS = ("audit_id", "organization_id", "at", "actor", "action", "subject", "details")


def _named(columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(columns, row, strict=True))


def _change_state(
    connection: Connection, organization_id: OrganizationId, state: MoveState, *, now: int
) -> None:
    values = {"organization_id": organization_id, "state": state, "now": now}
    connection.execute(_SQL["change_state"], values)
