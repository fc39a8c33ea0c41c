"""Spread organisations over several PostgreSQL servers by hash partitions that are foreign tables.

Each server has a database with all tables, keys and indexes, and whole organisations in it. The
coordinator has the control tables, and passes on what is said of an organisation to its server. A
transaction is of one organisation, so what it stores is on one server and committed there at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from engram.errors import ConflictError, InvalidRequestError
from engram.storage.postgres.definitions import Definition, Options, Secret, Step, define
from engram.storage.postgres.dialect import translate
from engram.storage.postgres.failures import translated_failures
from engram.storage.postgres.layout import read_layout
from engram.storage.postgres.migrate import load_migrations, migrate
from engram.storage.postgres.pool import Driver, connect
from engram.storage.rows.queries import load_queries

APPLICATION_ROLE = "engram_app"

_OF_USER = ("user", "password")
_DEFAULTS = {
    "application_name": "engram",
    # Rows that are fetched, or stored, with one round trip.
    "fetch_size": "1000",
    "batch_size": "100",
}


@dataclass(frozen=True, slots=True)
class Shard:
    """One database of `places`, with the organisations whose hash leaves `place`."""

    place: int
    places: int
    url: str

    @property
    def name(self) -> str:
        """What the coordinator calls it."""
        return f"engram_shard_{self.place}"


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """How the coordinator connects."""

    server: Options
    user: Options


def number_shards(urls: Sequence[str]) -> list[Shard]:
    """Return the shards at some addresses.

    Raises:
        InvalidRequestError: there are none, one is given twice, or one cannot be read.
    """
    if not urls:
        raise InvalidRequestError("name at least one", field="server")
    if len(set(urls)) < len(urls):
        raise InvalidRequestError("a database is given twice", field="server")
    shards = [Shard(place, len(urls), url) for place, url in enumerate(urls)]
    for shard in shards:
        options_of(shard)
    return shards


def options_of(shard: Shard) -> ShardOptions:
    """Return what the definition of a server says.

    Raises:
        InvalidRequestError: the address cannot be read.
    """
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(shard.url).items()}
    except psycopg.ProgrammingError as exc:
        raise InvalidRequestError("is no address of a database", field="server") from exc
    user = {name: given.pop(name) for name in _OF_USER if name in given}
    password = user.pop("password", None)
    # Who has no password is let in for where he comes from; only a superuser may say so.
    proof: Options = (
        {"password_required": "false"} if password is None else {"password": Secret(password)}
    )
    return ShardOptions(server=_DEFAULTS | given, user={**user, **proof})


_SQL = load_queries("postgres/sharding.sql")
_WHOLE = "engram_whole"


def shard(url: str, servers: Sequence[str], *, dry_run: bool = False) -> list[Step]:
    """Spread a database without organisations over servers; return what was done.

    Of a database that is spread already, the parts are defined anew, after an upgrade or because a
    server has another address now. Every process that uses it must be stopped before.

    Raises:
        ConflictError: a database has rows that would be lost, or is another shard than it should be.
    """
    shards = number_shards(servers)
    with translated_failures(), connect(url) as driver:
        if not dry_run and not _value(driver, "is_spread"):
            # For itself: roles are of a server, and a shard that is on the same one makes them too.
            migrate(driver, load_migrations())
        with driver.transaction(force_rollback=dry_run):
            coordinator = _Coordinator(driver, shards)
            coordinator.make_whole()
            preparation = coordinator.preparation()
            if not dry_run:
                for each in shards:
                    _prepare(each, preparation, coordinator=_identity(driver))
            coordinator.spread()
    return [
        *(Step(each.name, known.shown) for each in shards for known in preparation),
        *(Step("coordinator", done.shown) for done in coordinator.done),
    ]


class _Coordinator:
    """The database that knows where organisations are."""

    def __init__(self, driver: Driver, shards: Sequence[Shard]) -> None:
        self._driver = driver
        self._shards = shards
        self._tables: tuple[str, ...] = ()
        self._numbers: list[tuple[str, str, int]] = []
        self.done: list[Definition] = []

    def make_whole(self) -> None:
        """Bring the tables to the present schema, in one piece."""
        if _value(self._driver, "is_spread"):
            self._bring_together()
        migrate(self._driver, load_migrations())
        self._do("trust_owner", table=sql.Identifier("meta"))
        if _value(self._driver, "is_used"):
            raise ConflictError(
                "this database has organisations: move them to a directory with `engram migrate "
                "postgres-to-sqlite`, spread an empty database, and move them there"
            )
        self._tables = read_layout(self._driver).tenant

    def preparation(self) -> list[Definition]:
        """Return what is done in the database of every shard, once it has its tables."""
        keys = self._driver.execute(
            translate(_SQL["strict_keys"]).text, {"tables": list(self._tables)}
        ).fetchall()
        return [
            *(define(_SQL["trust_owner"], table=sql.Identifier(name)) for name in self._tables),
            *(
                define(_SQL["check_late"], table=sql.Identifier(name), key=sql.Identifier(key))
                for name, key in keys
            ),
        ]

    def spread(self) -> None:
        """Put parted tables in the places of the whole ones."""
        self._do("add_wrapper")
        self._do("join_in_shards", database=sql.Identifier(self._driver.info.dbname))
        for each in self._shards:
            self._add_server(each)
        self._do("add_schema", schema=sql.Identifier(_WHOLE))
        for name in self._tables:
            self._part(name)
        self._do("grant_numbers")
        for table, column, number in self._numbers:
            name = sql.Literal(f"engram.{table}")
            self._do("go_on", name=name, column=sql.Literal(column), number=sql.Literal(number))
        self._do("make_wait")
        self._do("have_wait")

    def _add_server(self, each: Shard) -> None:
        server, options = sql.Identifier(each.name), options_of(each)
        self._do("add_server", server=server, options=options.server)
        for user in (sql.Identifier(APPLICATION_ROLE), sql.SQL("CURRENT_USER")):
            self._do("add_user", user=user, server=server, options=options.user)
        self._do("add_schema", schema=server)

    def _part(self, name: str) -> None:
        table = sql.Identifier(name)
        self._do("put_aside", table=table)
        self._do("part_table", table=table)
        for each in self._shards:
            self._do(
                "add_part",
                table=table,
                name=sql.Literal(name),
                server=sql.Identifier(each.name),
                place=sql.Literal(each.place),
                places=sql.Literal(each.places),
            )
        for step in ("force_security", "secure", "grant"):
            self._do(step, table=table)

    def _bring_together(self) -> None:
        """Undo what `spread` did; all rows are in the databases of the shards."""
        places = _value(self._driver, "places")
        if places != len(self._shards):
            raise ConflictError(
                f"the rows are spread over {places} databases, not over {len(self._shards)}"
            )
        counted = self._driver.execute(_SQL["counted"].encode()).fetchall()
        self._numbers = [row for row in counted if row[2] is not None]
        names = [name for (name,) in self._driver.execute(_SQL["parted"].encode())]
        for name in names:
            self._do("drop_table", table=sql.Identifier(name))
            self._do("bring_back", table=sql.Identifier(name))
        self._do("drop_wait")
        for each in self._shards:
            self._do("drop_server", server=sql.Identifier(each.name))
            self._do("drop_schema", schema=sql.Identifier(each.name))
        self._do("drop_schema", schema=sql.Identifier(_WHOLE))

    def _do(self, statement: str, /, **parts: sql.Composable | Options) -> None:
        definition = define(_SQL[statement], **parts)
        definition.run(self._driver)
        self.done.append(definition)


def _prepare(each: Shard, preparation: Sequence[Definition], *, coordinator: Any) -> None:
    """Make the database of a shard ready, unless it has another use."""
    with connect(each.url) as driver:
        driver.execute(_SQL["be_impatient"].encode())
        if _identity(driver) == coordinator:
            raise ConflictError("the coordinator cannot be one of its own shards")
        if _value(driver, "is_spread"):
            raise ConflictError(f"{each.name} has shards of its own")
        migrate(driver, load_migrations())
        with driver.transaction():
            for definition in preparation:
                definition.run(driver)
            _take_place(driver, each)


def _take_place(driver: Driver, each: Shard) -> None:
    if _value(driver, "find_place"):
        found = driver.execute(_SQL["get_place"].encode()).fetchone()
        if found != (each.place, each.places):
            raise ConflictError(
                f"server {each.place + 1} of {each.places} has the rows of another: give the "
                "servers in the same order as the first time"
            )
        return
    driver.execute(_SQL["see_control"].encode())
    if _value(driver, "has_organizations") or _value(driver, "is_used"):
        raise ConflictError(f"server {each.place + 1} has organisations of its own")
    driver.execute(_SQL["make_place"].encode())
    define(_SQL["put_place"], place=sql.Literal(each.place), places=sql.Literal(each.places)).run(
        driver
    )


def _identity(driver: Driver) -> Any:
    return driver.execute(_SQL["database"].encode()).fetchone()


def _value(driver: Driver, name: str) -> Any:
    row = driver.execute(_SQL[name].encode()).fetchone()
    return None if row is None else row[0]
