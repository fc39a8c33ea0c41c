"""Control tables of both databases of a move: organisations, keys, audit, and the moves themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from engram.errors import StorageError
from engram.model.ids import OrganizationId
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries
from engram.transfer.tables import Key, Row

_SQL = load_queries("control.sql", package="engram.transfer")

MoveState = Literal["copying", "stale", "done"]
"""`stale`: the copy differs from the source, so it is made again."""

_COLUMNS = {
    "add_key": (
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
        "row_hash",
    ),
    "add_usage": (
        "organization_id",
        "day",
        "requests",
        "searches",
        "embedded_texts",
        "bytes_stored",
        "messages",
    ),
    "add_key_usage": ("organization_id", "key_id", "day", "requests"),
    "add_audit": (
        "audit_id",
        "organization_id",
        "at",
        "actor",
        "action",
        "subject",
        "details",
    ),
}
"""The columns of the rows that each statement adds, in the order in which they are read."""


class OrganizationRow(NamedTuple):
    """The columns of `list_organizations`."""

    number: int
    id: OrganizationId
    name: str
    is_local: int
    messages_max: int | None
    bytes_max: int | None
    created_at: int
    row_hash: bytes | None
    moved_to: str | None = None
    """The address of the database that replaces this one, if the organisation is sealed here."""


@dataclass(frozen=True, slots=True)
class Move:
    """The progress of an organisation's copy, as recorded at the target."""

    organization_id: OrganizationId
    number: int
    state: MoveState
    table: str | None = None
    """The table that was written last; those before it are complete."""
    last_key: Key | None = None


@dataclass(frozen=True, slots=True)
class ControlRows:
    """The rows of an organisation in the control tables."""

    keys: tuple[Row, ...]
    audit: tuple[Row, ...]
    usage: tuple[Row, ...]
    key_usage: tuple[Row, ...]


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
    """Return the unfinished move of an organisation, or begin one and assign it a number."""
    move = list_moves(connection).get(organization_id)
    if move is not None and move.state != "done":
        return move
    values = {"organization_id": organization_id}
    number: int = connection.execute(_SQL["reserve"], values).fetchone()[0]
    connection.execute(_SQL["unreserve"], values)
    return restart_move(connection, Move(organization_id, number, "copying"), now=now)


def restart_move(connection: Connection, move: Move, *, now: int) -> Move:
    """Record that the copy of an organisation begins from its first row."""
    values = {"organization_id": move.organization_id, "number": move.number, "now": now}
    connection.execute(_SQL["begin_move"], values)
    return Move(move.organization_id, move.number, "copying")


def advance_move(
    connection: Connection,
    organization_id: OrganizationId,
    *,
    table: str,
    last_key: Key,
    now: int,
) -> None:
    """Record the last row that was copied."""
    values = {
        "organization_id": organization_id,
        "table_name": table,
        "last_key": json.dumps(last_key),
        "now": now,
    }
    connection.execute(_SQL["advance_move"], values)


def mark_stale(connection: Connection, organization_id: OrganizationId, *, now: int) -> None:
    """Record that the copy differs from the source."""
    _change_state(connection, organization_id, "stale", now=now)


def read_control_rows(connection: Connection, organization_id: OrganizationId) -> ControlRows:
    """Return the keys, the audit trail and the daily usage of an organisation."""
    values = {"organization_id": organization_id}
    return ControlRows(
        keys=tuple(connection.execute(_SQL["list_keys"], values).fetchall()),
        audit=tuple(connection.execute(_SQL["list_audit"], values).fetchall()),
        usage=tuple(connection.execute(_SQL["list_usage"], values).fetchall()),
        key_usage=tuple(connection.execute(_SQL["list_key_usage"], values).fetchall()),
    )


def publish(
    connection: Connection,
    move: Move,
    organization: OrganizationRow,
    rows: ControlRows,
    *,
    now: int,
) -> None:
    """List a copied organisation, with its keys, usage and audit trail.

    Does nothing if another process has moved the same organisation and finished first.
    """
    if any(each.id == organization.id for each in list_organizations(connection)):
        return
    values = organization._asdict() | {"organization_id": organization.id, "number": move.number}
    connection.execute(_SQL["add_organization"], values)
    connection.execute(_SQL["note_due"], {"organization_id": organization.id})
    _add(connection, "add_key", rows.keys)
    _add(connection, "add_usage", rows.usage)
    _add(connection, "add_key_usage", rows.key_usage)
    add_audit(connection, rows.audit)
    stored = read_control_rows(connection, organization.id)
    # An organisation that was here before has left its own audit trail.
    is_same = (stored.keys, stored.usage, stored.key_usage) == (
        rows.keys,
        rows.usage,
        rows.key_usage,
    )
    if not is_same or not set(stored.audit).issuperset(rows.audit):
        raise StorageError(
            f"the keys, usage or audit trail of {organization.id} were changed while being stored"
        )
    _change_state(connection, organization.id, "done", now=now)


def read_lost_audit(connection: Connection) -> tuple[Row, ...]:
    """Return the audit trail of deleted organisations."""
    present = {organization.id for organization in list_organizations(connection)}
    deleted = {row[0] for row in connection.execute(_SQL["list_audited"])} - present
    return tuple(
        row
        for organization_id in sorted(deleted)
        for row in connection.execute(_SQL["list_audit"], {"organization_id": organization_id})
    )


def add_audit(connection: Connection, rows: Iterable[Row]) -> None:
    """Add audit rows; those that exist already are left alone."""
    _add(connection, "add_audit", rows)


def _add(connection: Connection, statement: str, rows: Iterable[Row]) -> None:
    named: list[dict[str, Any]] = [dict(zip(_COLUMNS[statement], row, strict=True)) for row in rows]
    connection.executemany(_SQL[statement], named)


def _change_state(
    connection: Connection, organization_id: OrganizationId, state: MoveState, *, now: int
) -> None:
    values = {"organization_id": organization_id, "state": state, "now": now}
    connection.execute(_SQL["change_state"], values)
