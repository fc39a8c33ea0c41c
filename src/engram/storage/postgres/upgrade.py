"""What an upgrade would do to a database; nothing is changed to find out."""

from __future__ import annotations

from engram.errors import StorageError, StoreNewerError
from engram.storage.postgres.connection import (
    Driver,
    complete,
    connect,
    fetch_value,
    translated_failures,
)
from engram.storage.postgres.logins import act_for_requests, read_version
from engram.storage.postgres.migrate import load_migrations
from engram.storage.rows.queries import load_queries
from engram.storage.upgrade import UpgradePart, UpgradePlan

_SQL = load_queries("postgres/upgrade.sql")


def plan_upgrade(url: str, *, name: str) -> UpgradePlan:
    """Return what an upgrade of a database and its homes would do; `name` says where it is, without secrets.

    Nothing is copied before it: the database makes each migration whole or not at all.
    """
    return UpgradePlan([_plan(url, name), *(_plan_home(*home) for home in _list_homes(url))])


def _list_homes(url: str) -> list[tuple[str, str]]:
    """Return name and URL of the homes; none if the database is older than any."""
    with translated_failures(), connect(complete(url)) as driver, driver.transaction():
        if not act_for_requests(driver) or not fetch_value(driver, _SQL["has_homes"]):
            return []
        driver.execute(_SQL["see_control"].encode())
        return driver.execute(_SQL["list_homes"].encode()).fetchall()


def _plan_home(name: str, url: str) -> UpgradePart:
    try:
        return _plan(url, f"home {name}")
    except StorageError as exc:
        steps = len(load_migrations())
        return UpgradePart(f"home {name}", steps, steps, problem=exc.message)


def _plan(url: str, name: str) -> UpgradePart:
    address, steps = complete(url), load_migrations()
    try:
        version = read_version(address)
    except StoreNewerError as exc:
        return UpgradePart(name, len(steps) + 1, len(steps), problem=str(exc))
    pending = steps[version:]
    rewritten = {table for step in pending for table in step.rewrites} if version else set[str]()
    with translated_failures(), connect(address) as driver:
        room = sum(_size_of(driver, table) for table in rewritten)
    return UpgradePart(name, version, len(steps), pending, room_bytes=room)


def _size_of(driver: Driver, table: str) -> int:
    return fetch_value(driver, _SQL["size_of"], table=f"engram.{table}") or 0
