"""The list of homes in the control database: added, shown without secrets, removed."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import NamedTuple

from engram import limits
from engram.clock import Clock, to_microseconds
from engram.errors import (
    ConfigurationError,
    ConflictError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    StorageError,
)
from engram.model.fields import check_label
from engram.storage.postgres.connection import complete
from engram.storage.postgres.homes import CONTROL, claim_of, read_roles
from engram.storage.postgres.logins import apply_migrations
from engram.storage.postgres.relocation import HomeAccess
from engram.storage.rows.database import Connection
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/homes.sql")

logger = logging.getLogger(__name__)


class ListedHome(NamedTuple):
    """A home as the control database knows it."""

    name: str
    url: str
    """May have a password."""
    organizations: int


def add_home(control_url: str, name: str, url: str, *, clock: Clock) -> None:
    """Let organisations be at a database; of a home that is known, change the address.

    Raises:
        InvalidRequestError: the name is reserved, or the address is none.
        LimitExceededError: there are `HOMES_MAX` homes already.
        ConflictError: the database has organisations of its own, or another use.
        StorageError: it cannot be reached.
    """
    check_label("name", name, characters_max=limits.HOME_NAME_CHARACTERS_MAX)
    if name == CONTROL:
        message = f"'{CONTROL}' is the control database itself; choose another name"
        raise InvalidRequestError(message, field="name")
    _check_url(url)
    with _opened(control_url) as control, closing(HomeAccess(url)) as home:
        with control.writing() as connection:
            _check_count(connection, name)
            installation = _name_installation(connection)
        apply_migrations(home.address)
        with home.writing() as connection:
            _claim(connection, installation, name)
        with control.writing() as connection:
            _store(connection, name, url, clock=clock)


def list_homes(control_url: str) -> list[ListedHome]:
    """Return the homes, by name."""
    with _opened(control_url) as control, control.reading() as connection:
        return [ListedHome(*row) for row in connection.execute(_SQL["list_homes"]).fetchall()]


def remove_home(control_url: str, name: str) -> None:
    """Let no organisation be at a home any more; the database itself stays.

    Raises:
        NotFoundError: there is no such home.
        ConflictError: it has organisations, or rows of some that are to be removed.
    """
    with _opened(control_url) as control:
        with control.writing() as connection:
            urls = connection.execute(_SQL["find_home"], {"name": name}).fetchall()
            if not urls:
                raise NotFoundError("home", name)
            (is_used,), *_ = connection.execute(_SQL["is_used"], {"name": name}).fetchall()
            if is_used:
                raise ConflictError(
                    f"the home '{name}' has organisations, or rows of some that were moved or deleted:"
                    " move them first (`engram orgs move`)"
                )
            connection.execute(_SQL["remove_home"], {"name": name})
        _release(urls[0][0])


def _check_url(url: str) -> None:
    try:
        complete(url)
    except ConfigurationError as exc:
        raise InvalidRequestError("is not a PostgreSQL URL", field="url") from exc


@contextmanager
def _opened(control_url: str) -> Generator[HomeAccess]:
    with closing(HomeAccess(control_url)) as control:
        control.open()
        yield control


def _check_count(connection: Connection, name: str) -> None:
    names = {row[0] for row in connection.execute(_SQL["list_homes"])}
    count = len(names | {name})
    if count > limits.HOMES_MAX:
        raise LimitExceededError("homes", limit=limits.HOMES_MAX, actual=count, unit="homes")


def _name_installation(connection: Connection) -> str:
    """Return the name of an installation, drawn when it gets its first home."""
    installation, _ = read_roles(connection)
    if installation is None:
        installation = secrets.token_hex(8)
        connection.execute(_SQL["put_installation"], {"installation": installation})
    return installation


def _claim(connection: Connection, installation: str, name: str) -> None:
    """Record in a database whose home it is.

    Raises:
        ConflictError: it has another use.
    """
    own, found = read_roles(connection)
    claim = claim_of(installation, name)
    if own == installation:
        raise ConflictError("this is the control database itself, where organisations are anyway")
    if own is not None or connection.execute(_SQL["has_organizations"]).fetchone()[0]:
        raise ConflictError("this database has organisations of its own: use an empty one")
    if found not in (None, claim):
        raise ConflictError("this database is another home already")
    connection.execute(_SQL["put_home_of"], {"home_of": claim})


def _store(connection: Connection, name: str, url: str, *, clock: Clock) -> None:
    values = {"name": name, "url": url}
    if not connection.execute(_SQL["change_home"], values).rowcount:
        now = to_microseconds(clock.now())
        connection.execute(_SQL["add_home"], {**values, "now": now})


def _release(url: str) -> None:
    """Let a database be used for something else; one that is away keeps its claim."""
    try:
        with closing(HomeAccess(url)) as home, home.writing() as connection:
            connection.execute(_SQL["put_home_of"], {"home_of": None})
    except StorageError as exc:
        logger.warning("the database of the home still says that it is one: %s", exc)
