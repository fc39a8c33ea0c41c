"""Builds Engram from its settings; the only module that knows every part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Literal, TypedDict, assert_never

from engram.clock import Clock, IdSource, RandomIds, SystemClock
from engram.embedding.choice import Hashed, LocalModel, NoEmbedder, OnnxDirectory, RemoteService
from engram.embedding.files import ModelFiles, find_directory, find_registered
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.local import OnnxEmbedder, StaticEmbedder, TokenOnnxEmbedder
from engram.embedding.registry import POTION, KnownModel, known_model
from engram.embedding.remote import RemoteAddress, RemoteEmbedder
from engram.embedding.retry import Sleep
from engram.embedding.tiers import Tiers
from engram.errors import ConfigurationError, StorageError
from engram.language import NoLanguageModel
from engram.model.ids import OrganizationId
from engram.service import Service, Tools
from engram.service.access.alternation import Alternation
from engram.service.access.audit import AuditTrail, build_audit_log
from engram.service.access.credentials import Access
from engram.service.access.rate import RateLimiter
from engram.service.access.usage import Activity, UsageMeter
from engram.service.deliveries import DeliveryLog
from engram.service.work.background import Background
from engram.service.work.document_indexing import DocumentIndexing
from engram.service.work.erasing import Erasing
from engram.service.work.indexing import Indexer
from engram.service.work.schedule import Pace
from engram.service.work.scrubbing import Scrubber
from engram.settings import Settings, without_credentials
from engram.storage.bookkeeping.audit import Announce
from engram.storage.private import make_private
from engram.storage.sqlite.store import SqliteStore
from engram.storage.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from engram.backup.creating import HeldStore
    from engram.language import LanguageModel
    from engram.model.backup import FileState
    from engram.sources.places import Places
    from engram.sources.policy import Policy
    from engram.storage.upgrade import UpgradePlan
    from engram.transfer.move import Mover

Direction = Literal["sqlite-to-postgres", "postgres-to-sqlite"]
"""From where to where organisations are moved."""


@asynccontextmanager
async def open_service(
    settings: Settings,
    *,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    accept: bool = False,
) -> AsyncGenerator[Service]:
    """Open the store and yield the service on it; close the store afterwards.

    With `accept` store files that are not those that were written are taken as they are.
    """
    clock = clock or SystemClock()
    ids = ids or RandomIds()
    activity = Activity()
    target = settings.audit_log
    log = None if target is None else build_audit_log(target, activity)
    store = _build_store(settings, clock=clock, ids=ids, announce=log and log.put, accept=accept)
    await store.open()
    tiers = build_embedders(settings, clock=clock)
    language = _build_language_model(settings, clock=clock)
    service = build_service(
        store, tiers, settings, clock=clock, ids=ids, language=language, activity=activity
    )
    try:
        yield service
    finally:
        await service.close()
        if language is not None:
            await language.close()
        await tiers.close()
        await store.close()
        if log is not None:
            await asyncio.to_thread(log.close)


@asynccontextmanager
async def open_move(
    settings: Settings,
    *,
    direction: Direction,
    only_plan: bool = False,
    clock: Clock | None = None,
    ids: IdSource | None = None,
) -> AsyncGenerator[Mover]:
    """Open the directory and the database of the settings, and yield what moves organisations.

    With `only_plan` the target is neither created nor migrated.

    Raises:
        ConfigurationError: the settings name no database.
        ConflictError: there is nothing to move.
    """
    # Few processes move anything.
    from engram.storage.sqlite.move import SqliteSource, SqliteTarget  # noqa: PLC0415
    from engram.transfer.move import Mover  # noqa: PLC0415

    url = _database_url(settings)
    with _explained_imports():
        from engram.storage.postgres.move import PostgresSource, PostgresTarget  # noqa: PLC0415
    clock, ids = clock or SystemClock(), ids or RandomIds()
    if direction == "sqlite-to-postgres":
        source = SqliteSource(settings.home)
        target, address = PostgresTarget(url, clock=clock, ids=ids), settings.store_place
    else:
        source = PostgresSource(url)
        target, address = SqliteTarget(settings.home, clock=clock, ids=ids), str(settings.home)
    try:
        await source.open()
        await target.open(only_look=only_plan)
        yield Mover(source, target, clock=clock, address=address)
    finally:
        await target.close()
        await source.close()


def plan_upgrade(settings: Settings) -> UpgradePlan:
    """Return what an upgrade of the store would do; nothing is changed."""
    if settings.database_url is None:
        from engram.storage.sqlite import upgrade  # noqa: PLC0415 done once for a version

        return upgrade.plan_upgrade(settings.home)
    with _explained_imports():
        from engram.storage.postgres.upgrade import (  # noqa: PLC0415 done once for a version
            plan_upgrade as plan_database,
        )
    return plan_database(settings.database_url, name=settings.store_place)


async def upgrade_store(
    settings: Settings, plan: UpgradePlan, *, advance: Callable[[int], None]
) -> list[str]:
    """Migrate the store and every organisation in it; return those that could not be, and why.

    Opening them is what migrates them: the same happens to each at its first use. `advance` is called
    with 1 for each.
    """
    with_file = {part.organization_id for part in plan.parts}
    clock, ids = SystemClock(), RandomIds()
    store = _build_store(settings, clock=clock, ids=ids, announce=None, accept=False)
    problems = list[str]()
    try:
        await store.open()
        advance(1)
        for organization in await store.control.list_organizations():
            if settings.database_url is None and organization.id not in with_file:
                continue
            try:
                await store.organization(organization.id)
            except StorageError as exc:
                problems.append(f"{organization.id}: {exc}")
            advance(1)
    finally:
        await store.close()
    return problems


def remove_copies(settings: Settings) -> None:
    """Remove the copies that earlier upgrades kept."""
    from engram.storage.sqlite.upgrade import remove_all_copies  # noqa: PLC0415 rarely done

    remove_all_copies(settings.home)


@contextmanager
def hold_files(settings: Settings, *, clock: Clock | None = None) -> Generator[HeldStore]:
    """Yield all files of the directory of the settings at one instant, for a backup.

    Raises:
        ConfigurationError: the store is a database, which has its own tools for this.
    """
    from engram.storage.sqlite.snapshot import hold_store  # noqa: PLC0415 few processes do

    if settings.database_url is not None:
        raise ConfigurationError(
            "ENGRAM_DATABASE_URL",
            "is set, and PostgreSQL is backed up with pg_dump or pg_basebackup: see docs/backup.md",
        )
    with hold_store(settings.home, clock=clock or SystemClock()) as held:
        yield held


def put_mark(path: Path, state: FileState) -> None:
    """Write the mark of a file that is being restored."""
    from engram.storage.sqlite.snapshot import put_mark  # noqa: PLC0415 few processes do

    put_mark(path, state)


def build_policy(settings: Settings, places: Places) -> Policy:
    """Return what imports and captures may keep."""
    from engram.sources.policy import Policy  # noqa: PLC0415 few processes import

    return Policy(
        home=places.home,
        redacts=settings.redact == "on",
        only=settings.only,
        never=settings.exclude,
        aliases=settings.aliases,
    )


def set_up_database(
    settings: Settings, *, login: str, with_password: bool
) -> tuple[str, str | None]:
    """Make the tables and a user that owns nothing; return its name, and its password if it is new.

    Raises:
        ConfigurationError: the settings name no database, or its user may not do this.
        ConflictError: there is a user of that name with more rights.
    """
    url = _database_url(settings)
    with _explained_imports():
        from engram.storage.postgres.logins import set_up_login  # noqa: PLC0415 done once
    made = set_up_login(url, login=login, with_password=with_password)
    return made.name, made.password


def distribute_tables(settings: Settings, *, dry_run: bool) -> Sequence[tuple[str, str]]:
    """Spread the tables over a Citus cluster; return which statements are run, and where.

    Raises:
        ConfigurationError: the settings name no database.
        ConflictError: the database does not allow it.
    """
    url = _database_url(settings)
    with _explained_imports():
        from engram.storage.postgres.citus import distribute  # noqa: PLC0415 few installations do
    return distribute(url, dry_run=dry_run)


class HomeView(TypedDict):
    """A home as it is shown: without user, password and options."""

    name: str
    database: str
    organizations: int
    is_away: bool


def add_home(settings: Settings, name: str, url: str) -> None:
    """Let organisations be at a database; of a home that is known, change the address.

    Raises:
        ConfigurationError: the settings name no database.
        ConflictError: that database has another use.
    """
    control = _database_url(settings)
    with _explained_imports():
        from engram.storage.postgres import home_list  # noqa: PLC0415 rarely done
    home_list.add_home(control, name, url, clock=SystemClock())


def list_homes(settings: Settings) -> list[HomeView]:
    """Return the homes of the database of the settings, by name.

    Raises:
        ConfigurationError: the settings name no database.
    """
    control = _database_url(settings)
    with _explained_imports():
        from engram.storage.postgres import home_list  # noqa: PLC0415 rarely done
    homes = home_list.list_homes(control)
    away = asyncio.run(_list_homes_away(settings)) if homes else ()
    return [
        HomeView(
            name=home.name,
            database=without_credentials(home.url),
            organizations=home.organizations,
            is_away=home.name in away,
        )
        for home in homes
    ]


async def _list_homes_away(settings: Settings) -> Sequence[str]:
    async with _opened_store(settings) as store:
        return await store.list_homes_away()


def remove_home(settings: Settings, name: str) -> None:
    """Let no organisation be at a home any more.

    Raises:
        ConfigurationError: the settings name no database.
        ConflictError: it has organisations.
    """
    control = _database_url(settings)
    with _explained_imports():
        from engram.storage.postgres import home_list  # noqa: PLC0415 rarely done
    home_list.remove_home(control, name)


def move_organization(
    settings: Settings,
    organization_id: OrganizationId,
    *,
    to: str,
    advance: Callable[[int], None] = lambda _: None,
) -> str:
    """Move an organisation to another home; return what came of it.

    Raises:
        ConfigurationError: the settings name no database.
        ConflictError: it is being moved elsewhere.
    """
    url = _database_url(settings)
    with _explained_imports():
        from engram.storage.postgres import relocation  # noqa: PLC0415 rarely done
    with closing(relocation.HomeAccess(url)) as control:
        control.open()
        mover = relocation.Mover(
            control=control, clock=SystemClock(), ids=RandomIds(), advance=advance
        )
        outcome = mover.move(organization_id, to)
    if outcome == "given up":
        asyncio.run(_remove_leftovers(settings))
    return outcome


async def _remove_leftovers(settings: Settings) -> None:
    async with _opened_store(settings):
        pass  # opening it has done so


@asynccontextmanager
async def _opened_store(settings: Settings) -> AsyncGenerator[Store]:
    store = _build_store(
        settings, clock=SystemClock(), ids=RandomIds(), announce=None, accept=False
    )
    await store.open()
    try:
        yield store
    finally:
        await store.close()


def build_service(
    store: Store,
    tiers: Tiers,
    settings: Settings,
    *,
    clock: Clock,
    ids: IdSource,
    language: LanguageModel | None = None,
    activity: Activity | None = None,
    sleep: Sleep = asyncio.sleep,
) -> Service:
    """Return the service on an open store; `sleep` is what waits for embedders to come back."""
    activity = activity or Activity()
    # A remote model puts no load on this machine.
    pace = None if isinstance(settings.embedder, RemoteService) else Pace(activity)
    meter = UsageMeter(store, clock)
    indexer = Indexer(store, tiers, owner=ids.new("job_"), meter=meter, pace=pace, sleep=sleep)
    document_indexing = DocumentIndexing(
        store, indexer, owner=ids.new("job_"), pace=Pace(activity), sleep=sleep
    )
    limiter = RateLimiter(settings.rate_limit, clock)
    trail = AuditTrail(store.control, clock=clock, activity=activity)
    access = Access(
        store,
        clock,
        limiter,
        trail=trail,
        meter=meter,
        admin_token=settings.admin_token,
        admin_tokens_file=settings.admin_tokens_file,
    )

    async def tidy_files() -> None:
        # Without a data directory nothing of its code is imported.
        if settings.data_dir is not None:
            await service.files.tidy()

    async def forget_files(organization_id: OrganizationId, ids: Collection[str]) -> int:
        if settings.data_dir is None:
            return 0
        return await service.files.forget(organization_id, ids)

    tools = Tools(
        store=store,
        tiers=tiers,
        language=language,
        clock=clock,
        access=access,
        activity=activity,
        alternation=Alternation(),
        trail=trail,
        meter=meter,
        deliveries=DeliveryLog(store, is_on=settings.hook_log == "on"),
        background=Background(
            store,
            indexer=indexer,
            documents=document_indexing,
            owner=ids.new("job_"),
            scrubber=Scrubber(
                store,
                owner=ids.new("job_"),
                clock=clock,
                activity=activity,
                bytes_per_s=settings.scrub_rate,
            ),
            erasing=Erasing(
                store,
                owner=ids.new("job_"),
                pace=Pace(activity),
                forget_files=forget_files,
                sleep=sleep,
            ),
            forget_keys=access.forget_keys,
            tidy_files=tidy_files,
        ),
        document_indexing=document_indexing,
        indexer=indexer,
        home=settings.home,
        data_directory=settings.data_dir,
        document_bytes_max=settings.max_document_bytes,
        raw_document_bytes_max=settings.raw_document_max_bytes,
        trash_stay=timedelta(days=settings.trash_days),
    )
    service = Service(tools)
    return service


def _build_store(
    settings: Settings, *, clock: Clock, ids: IdSource, announce: Announce | None, accept: bool
) -> Store:
    vector_bytes_max = settings.vector_memory_mb * 1_000_000
    if settings.database_url is None:
        if settings.database_read_url is not None:
            raise ConfigurationError(
                "ENGRAM_DATABASE_READ_URL", "needs ENGRAM_DATABASE_URL, the database it replicates"
            )
        return SqliteStore(
            settings.home,
            clock=clock,
            ids=ids,
            vector_bytes_max=vector_bytes_max,
            announce=announce,
            accept=accept,
        )
    # Its `engram.toml` may hold the password of the database.
    make_private(settings.home)
    with _explained_imports():
        from engram.storage.postgres.store import PostgresStore  # noqa: PLC0415 few installations have one
    return PostgresStore(
        settings.database_url,
        clock=clock,
        ids=ids,
        vector_bytes_max=vector_bytes_max,
        read_url=settings.database_read_url,
        direct_url=settings.database_direct_url,
        staleness_s=settings.database_staleness,
        announce=announce,
        statement_s=settings.database_timeout,
        connections_max=settings.database_connections,
        by_server_clock=True,
    )


def _database_url(settings: Settings) -> str:
    if settings.database_url is None:
        raise ConfigurationError(
            "ENGRAM_DATABASE_URL", "not set; this command needs a PostgreSQL URL"
        )
    return settings.database_url


@contextmanager
def _explained_imports() -> Generator[None]:
    """Turn a missing PostgreSQL driver into an error that names the extra to install."""
    try:
        yield
    except ImportError as exc:
        message = "a database needs the extra `postgres`: pip install 'engram[postgres]'"
        raise ConfigurationError("ENGRAM_DATABASE_URL", message) from exc


def build_embedders(settings: Settings, *, clock: Clock) -> Tiers:
    """Return the embedders of the settings: no model is loaded and no service is called yet.

    Local models have an instant tier beside them.

    Raises:
        ConfigurationError: late interaction is on, and the embedder has no vectors of tokens.
    """
    files, threads = ModelFiles(settings.model_dir), settings.embedder_threads
    is_late = settings.late_interaction == "on"
    if is_late and settings.embedder != LocalModel():
        raise ConfigurationError("ENGRAM_LATE_INTERACTION", "needs ENGRAM_EMBEDDER=local")
    match settings.embedder:
        case LocalModel(name):
            return _local_tiers(
                known_model(name), files, threads=threads, clock=clock, is_late=is_late
            )
        case OnnxDirectory(path):
            deep = OnnxEmbedder(lambda: find_directory(path), threads=threads, clock=clock)
            return Tiers.of(instant=StaticEmbedder(POTION, files, clock=clock), deep=deep)
        case RemoteService(url, model):
            address = RemoteAddress(url, model, settings.embedder_key)
            return Tiers.of(deep=RemoteEmbedder(address, clock=clock))
        case Hashed():
            return Tiers.of(deep=HashedEmbedder())
        case NoEmbedder():
            return Tiers()
        case _:
            assert_never(settings.embedder)


def _local_tiers(
    model: KnownModel, files: ModelFiles, *, threads: int, clock: Clock, is_late: bool
) -> Tiers:
    instant = StaticEmbedder(POTION, files, clock=clock)
    if model.kind == "static":
        return Tiers.of(instant=instant)
    build = OnnxEmbedder
    if is_late and model.projection is not None:
        build = partial(TokenOnnxEmbedder, projection=model.projection)
    deep = build(
        lambda: find_registered(model, files),
        threads=threads,
        clock=clock,
        identity=model.identity,
        probe=lambda: files.probe(model),
    )
    return Tiers.of(instant=instant, deep=deep)


def _build_language_model(settings: Settings, *, clock: Clock) -> LanguageModel | None:
    if isinstance(settings.language_model, NoLanguageModel):
        return None
    from engram.language.remote import build_language_model  # noqa: PLC0415 few installations have one

    return build_language_model(
        settings.language_model, key=settings.language_model_key, clock=clock
    )
