"""Who logs in: a user that owns nothing serves, and the owner of the tables changes them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache
from typing import Any

import psycopg
from psycopg import sql

from engram.clock import random_text
from engram.errors import ConfigurationError, ConflictError
from engram.storage.postgres.address import complete
from engram.storage.postgres.definitions import define
from engram.storage.postgres.dialect import translate
from engram.storage.postgres.failures import translated_failures
from engram.storage.postgres.migrate import load_migrations, migrate, version_of
from engram.storage.postgres.pool import Driver, connect
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
    """Only of one that was made just now, unless it has none."""


def bring_forward(address: str) -> None:
    """Apply the migrations that are due; with none, make sure that the user may serve.

    Raises:
        ConfigurationError: some are due, and the user of the address may not apply them.
    """
    with translated_failures(), connect(address) as driver:
        if _read_version(driver) < len(load_migrations()):
            _apply(driver)
        elif _value(driver, "find_login", login=driver.info.user):
            warn_of_owner()


@cache
def warn_of_owner() -> None:
    """Log, once in a process, that it has more rights than it needs."""
    logger.warning(
        "the user of ENGRAM_DATABASE_URL could put row-level security aside: "
        "`engram postgres setup` makes one that owns nothing"
    )


def read_version(address: str) -> int:
    """Return how many migrations made the tables; 0 where there are none."""
    with translated_failures(), connect(address) as driver:
        return _read_version(driver)


def set_up_login(url: str, *, login: str, with_password: bool = True) -> NewLogin:
    """Make the tables, or bring them forward, and let a user serve that owns nothing.

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
    is_mighty = _value(driver, "find_login", login=login)
    if is_mighty:
        raise ConflictError(f"the user {login!r} has more rights than a server may have")
    name = sql.Identifier(login)
    password = None
    if is_mighty is None:
        define(_SQL["add_login"], login=name).run(driver)
        password = random_text(_PASSWORD_CHARACTERS) if with_password else None
    if password is not None:
        # Hashed here, so that no log of the server holds it.
        hashed = driver.pgconn.encrypt_password(password.encode(), login.encode(), b"scram-sha-256")
        define(_SQL["set_password"], login=name, password=sql.Literal(hashed.decode())).run(driver)
    define(_SQL["grant_role"], login=name).run(driver)
    if not _value(driver, "may_connect", login=login):
        database = sql.Identifier(driver.info.dbname)
        define(_SQL["let_connect"], database=database, login=name).run(driver)
    return NewLogin(login, password)


def _apply(driver: Driver) -> None:
    try:
        migrate(driver, load_migrations())
    except psycopg.errors.InsufficientPrivilege as exc:
        raise ConfigurationError(
            "ENGRAM_DATABASE_URL",
            f"the tables are missing or of an older Engram, and this user may not make them: run "
            f"{_OWNER_COMMAND}",
        ) from exc


def _read_version(driver: Driver) -> int:
    """Return the version of the tables as requests see it, or as the user does that has no role."""
    with driver.transaction():
        if _value(driver, "may_act"):
            driver.execute(_SQL["act"].encode())
        try:
            return version_of(driver, load_migrations())
        except psycopg.errors.InsufficientPrivilege as exc:
            raise ConfigurationError(
                "ENGRAM_DATABASE_URL",
                f"this user may not read the tables: run {_OWNER_COMMAND}, which makes one that may",
            ) from exc


def _value(driver: Driver, name: str, **values: Any) -> Any:
    row = driver.execute(translate(_SQL[name]).text, values).fetchone()
    return None if row is None else row[0]
