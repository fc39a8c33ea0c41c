"""Database users: servers log in as one that owns nothing, and the owner of the tables migrates them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache

import psycopg
from psycopg import sql

from engram.clock import random_text
from engram.errors import ConfigurationError, ConflictError
from engram.storage.postgres.connection import (
    Driver,
    complete,
    connect,
    fetch_value,
    translated_failures,
)
from engram.storage.postgres.migrate import define, load_migrations, migrate_all, version_of
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/logins.sql")
_PASSWORD_CHARACTERS = 32
_OWNER_COMMAND = "`engram postgres setup --database-url URL` with a URL of their owner"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NewLogin:
    """A user of the database that owns nothing."""

    name: str
    password: str | None
    """None if it existed before, or has no password."""


def apply_migrations(address: str) -> None:
    """Apply pending migrations; with none, warn of a user that has too many rights.

    Raises:
        ConfigurationError: some are pending, and the user of the address may not apply them.
    """
    with translated_failures(), connect(address) as driver:
        if _read_version(driver) < len(load_migrations()):
            _apply(driver)
        elif fetch_value(driver, _SQL["find_login"], login=driver.info.user):
            warn_of_owner()


@cache
def warn_of_owner() -> None:
    """Warn, once in a process, that it has more rights than it needs."""
    logger.warning(
        "the user of ENGRAM_DATABASE_URL could put row-level security aside: "
        "`engram postgres setup` makes one that owns nothing"
    )


def read_version(address: str) -> int:
    """Return the number of applied migrations; 0 if there are no tables."""
    with translated_failures(), connect(address) as driver:
        return _read_version(driver)


def set_up_login(url: str, *, login: str, with_password: bool = True) -> NewLogin:
    """Create or migrate the tables, and make a user for servers that owns nothing.

    Raises:
        ConfigurationError: the user of `url` may not do this.
        ConflictError: there is a user of that name with more rights.
    """
    with translated_failures(), connect(complete(url)) as driver:
        _apply(driver)
        try:
            with driver.transaction():
                return _make_login(driver, login, with_password=with_password)
        except psycopg.errors.InsufficientPrivilege as exc:
            raise ConfigurationError(
                "ENGRAM_DATABASE_URL",
                "this user may not make others: it needs CREATEROLE, and ADMIN on engram_app",
            ) from exc


def _make_login(driver: Driver, login: str, *, with_password: bool) -> NewLogin:
    has_too_many_rights = fetch_value(driver, _SQL["find_login"], login=login)
    if has_too_many_rights:
        raise ConflictError(f"the user {login!r} has more rights than a server may have")
    name = sql.Identifier(login)
    password = None
    if has_too_many_rights is None:
        define(_SQL["add_login"], login=name).run(driver)
        password = random_text(_PASSWORD_CHARACTERS) if with_password else None
    if password is not None:
        # Hashed by the client, so that the log of the server never has it.
        hashed = driver.pgconn.encrypt_password(password.encode(), login.encode(), b"scram-sha-256")
        define(_SQL["set_password"], login=name, password=sql.Literal(hashed.decode())).run(driver)
    define(_SQL["grant_role"], login=name).run(driver)
    if not fetch_value(driver, _SQL["may_connect"], login=login):
        database = sql.Identifier(driver.info.dbname)
        define(_SQL["let_connect"], database=database, login=name).run(driver)
    return NewLogin(login, password)


def _apply(driver: Driver) -> None:
    try:
        migrate_all(driver)
    except psycopg.errors.InsufficientPrivilege as exc:
        raise ConfigurationError(
            "ENGRAM_DATABASE_URL",
            f"the tables are missing or of an older Engram, and this user may not make them: run "
            f"{_OWNER_COMMAND}",
        ) from exc


def act_for_requests(driver: Driver) -> bool:
    """Take the role that requests run as, until the transaction ends; False if the user may not."""
    may_act: bool = fetch_value(driver, _SQL["may_act"])
    if may_act:
        driver.execute(_SQL["act"].encode())
    return may_act


def _read_version(driver: Driver) -> int:
    """Return the version of the tables, read as `engram_app` where the user may take that role."""
    with driver.transaction():
        act_for_requests(driver)
        try:
            return version_of(driver, load_migrations())
        except psycopg.errors.InsufficientPrivilege as exc:
            raise ConfigurationError(
                "ENGRAM_DATABASE_URL",
                f"this user may not read the tables: run {_OWNER_COMMAND}, which makes one that may",
            ) from exc
