"""Spread organisations over several servers: by foreign tables, or with Citus.

Sharding gives each server a database with all tables, keys and indexes, and whole organisations in it.
The coordinator has the control tables, and hash partitions that are foreign tables of the shards. A
transaction is of one organisation, so it writes to one server and is committed there at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from engram.errors import ConflictError, InvalidRequestError
from engram.storage.postgres import connection as postgres
from engram.storage.postgres.connection import Driver, fetch_value
from engram.storage.postgres.migrate import Definition, Options, Secret, Step, define, migrate_all
from engram.storage.rows.queries import load_queries

_SQL = load_queries("postgres/sharding.sql")
_WHOLE = "engram_whole"
_APPLICATION_ROLE = "engram_app"
_DEFAULTS = {
    "application_name": "engram",
    # Rows per round trip.
    "fetch_size": "1000",
    "batch_size": "100",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The tables of a database in order of their foreign keys."""

    control: tuple[str, ...]
    tenant: tuple[str, ...]


def read_layout(driver: Driver) -> Layout:
    """Return the control and the tenant tables of a database."""
    rows: list[tuple[str, bool]] = driver.execute(_SQL["tables"].encode()).fetchall()
    return Layout(
        control=tuple(name for name, is_tenant in rows if not is_tenant),
        tenant=tuple(name for name, is_tenant in rows if is_tenant),
    )


@dataclass(frozen=True, slots=True)
class Shard:
    """One database of `places`, with the organisations whose hash modulo `places` is `place`."""

    place: int
    places: int
    url: str

    @property
    def name(self) -> str:
        """The name of its server and schema in the coordinator."""
        return f"engram_shard_{self.place}"


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """Options of `CREATE SERVER` and `CREATE USER MAPPING`."""

    server: Options
    user: Options


def number_shards(urls: Sequence[str]) -> list[Shard]:
    """Return the shards at these URLs.

    Raises:
        InvalidRequestError: there are none, one is given twice, or one cannot be parsed.
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
    """Return how the coordinator connects to a shard.

    Raises:
        InvalidRequestError: the URL cannot be parsed.
    """
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(shard.url).items()}
    except psycopg.ProgrammingError as exc:
        raise InvalidRequestError("is not a PostgreSQL URL", field="server") from exc
    user = {name: given.pop(name) for name in ("user", "password") if name in given}
    password = user.pop("password", None)
    # Without a password the shard trusts the host; only a superuser may define such a mapping.
    proof: Options = (
        {"password_required": "false"} if password is None else {"password": Secret(password)}
    )
    return ShardOptions(server=_DEFAULTS | given, user={**user, **proof})


def shard(url: str, servers: Sequence[str], *, dry_run: bool = False) -> list[Step]:
    """Spread a database without organisations over servers; return the statements.

    If it is sharded already, its partitions are defined anew, as after an upgrade or a change of a
    server's address. Every process that uses it must be stopped before.

    Raises:
        ConflictError: a database has rows that would be lost, or is another shard than it should be.
    """
    shards = number_shards(servers)
    with postgres.translated_failures(), postgres.connect(url) as driver:
        if not dry_run and not fetch_value(driver, _SQL["is_spread"]):
            # In its own transaction: a shard on the same server creates the same roles.
            migrate_all(driver)
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
    """The database that knows the shard of each organisation."""

    def __init__(self, driver: Driver, shards: Sequence[Shard]) -> None:
        self._driver = driver
        self._shards = shards
        self._tables: tuple[str, ...] = ()
        self._numbers: list[tuple[str, str, int]] = []
        self.done: list[Definition] = []

    def make_whole(self) -> None:
        """Undo an earlier `spread`, and migrate the tables."""
        if fetch_value(self._driver, _SQL["is_spread"]):
            self._bring_together()
        migrate_all(self._driver)
        self._do("trust_owner", table=sql.Identifier("meta"))
        if fetch_value(self._driver, _SQL["is_used"]):
            raise ConflictError(
                "this database has organisations: move them to a directory with `engram migrate "
                "postgres-to-sqlite`, spread an empty database, and move them there"
            )
        self._tables = read_layout(self._driver).tenant

    def preparation(self) -> list[Definition]:
        """Return the statements for the database of every shard, once it has its tables."""
        keys = self._driver.execute(
            postgres.translate(_SQL["strict_keys"]).text, {"tables": list(self._tables)}
        ).fetchall()
        return [
            *(define(_SQL["trust_owner"], table=sql.Identifier(name)) for name in self._tables),
            *(
                define(_SQL["check_late"], table=sql.Identifier(name), key=sql.Identifier(key))
                for name, key in keys
            ),
        ]

    def spread(self) -> None:
        """Replace the tenant tables by partitioned ones."""
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
        for user in (sql.Identifier(_APPLICATION_ROLE), sql.SQL("CURRENT_USER")):
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
        """Undo `spread`; all rows are in the databases of the shards."""
        places = fetch_value(self._driver, _SQL["places"])
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
    """Migrate and mark the database of a shard, unless it has another use."""
    with postgres.connect(each.url) as driver:
        driver.execute(_SQL["be_impatient"].encode())
        if _identity(driver) == coordinator:
            raise ConflictError("the coordinator cannot be one of its own shards")
        if fetch_value(driver, _SQL["is_spread"]):
            raise ConflictError(f"{each.name} has shards of its own")
        migrate_all(driver)
        with driver.transaction():
            for definition in preparation:
                definition.run(driver)
            _take_place(driver, each)


def _take_place(driver: Driver, each: Shard) -> None:
    if fetch_value(driver, _SQL["find_place"]):
        found = driver.execute(_SQL["get_place"].encode()).fetchone()
        if found != (each.place, each.places):
            raise ConflictError(
                f"server {each.place + 1} of {each.places} has the rows of another: give the "
                "servers in the same order as the first time"
            )
        return
    driver.execute(_SQL["see_control"].encode())
    if fetch_value(driver, _SQL["has_organizations"]) or fetch_value(driver, _SQL["is_used"]):
        raise ConflictError(f"server {each.place + 1} has organisations of its own")
    driver.execute(_SQL["make_place"].encode())
    define(_SQL["put_place"], place=sql.Literal(each.place), places=sql.Literal(each.places)).run(
        driver
    )


def _identity(driver: Driver) -> Any:
    return driver.execute(_SQL["database"].encode()).fetchone()


def distribute(url: str, *, dry_run: bool = False) -> list[Step]:
    """Migrate the tables, distribute those that are not by Citus, and return the statements.

    If interrupted, the next run continues.

    Raises:
        ConflictError: the server has no Citus.
    """
    with postgres.translated_failures(), postgres.connect(url) as driver:
        _check(driver)
        if not dry_run:
            migrate_all(driver)
        plan = list(_plan(driver))
        if not dry_run:
            for definition in plan:
                definition.run(driver)
    return [Step("coordinator", definition.shown) for definition in plan]


def _plan(driver: Driver) -> Iterator[Definition]:
    layout = read_layout(driver)
    if not layout.tenant:
        raise ConflictError("there are no tables to distribute: run it without --dry-run")
    placed = {name for (name,) in driver.execute(_SQL["placed"].encode())}
    yield define(_SQL["let_in"])
    yield define(_SQL["pass_on"], database=sql.Identifier(driver.info.dbname))
    yield from _place(layout, placed)


def _place(layout: Layout, placed: set[str]) -> Iterator[Definition]:
    for name in layout.control:
        if name not in placed:
            yield define(_SQL["place_everywhere"], table=_qualified(name))
    # All tables are colocated with the first, so that an organisation is on one server.
    first = next((name for name in layout.tenant if name in placed), None)
    for name in layout.tenant:
        if first is None:
            first = name
            yield define(_SQL["distribute_first"], table=_qualified(name))
        elif name not in placed:
            yield define(_SQL["distribute"], table=_qualified(name), first=_qualified(first))


def _check(driver: Driver) -> None:
    row = driver.execute(_SQL["is_there"].encode()).fetchone()
    if row is None or not row[0]:
        raise ConflictError(
            "the server has no Citus: install it, add it to shared_preload_libraries, and run "
            "CREATE EXTENSION citus in this database"
        )


def _qualified(name: str) -> sql.Literal:
    return sql.Literal(f"engram.{name}")
