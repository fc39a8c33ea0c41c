"""Builds Engram from its settings; the only module that knows every part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Literal, assert_never

from engram.clock import Clock, IdSource, RandomIds, SystemClock
from engram.embedding.choice import Hashed, LocalModel, NoEmbedder, OnnxDirectory, RemoteService
from engram.embedding.files import ModelFiles, find_directory, find_registered
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.local import OnnxEmbedder, StaticEmbedder
from engram.embedding.registry import POTION, KnownModel, known_model
from engram.embedding.remote import RemoteAddress, RemoteEmbedder
from engram.embedding.retry import Sleep
from engram.embedding.tiers import Tiers
from engram.errors import ConfigurationError
from engram.language.choice import NoLanguageModel
from engram.service import Service
from engram.service.access.audit_trail import AuditTrail
from engram.service.access.credentials import Access
from engram.service.access.rate import RateLimiter
from engram.service.access.usage import Activity, UsageMeter
from engram.service.use_case import Tools
from engram.service.work.background import Background
from engram.service.work.document_indexing import DocumentIndexing
from engram.service.work.indexing import Indexer
from engram.service.work.schedule import Pace
from engram.settings import Settings
from engram.storage.bookkeeping.audit import Announce
from engram.storage.private import make_private
from engram.storage.sqlite.store import SqliteStore
from engram.storage.store import Store

if TYPE_CHECKING:
    from engram.language import LanguageModel
    from engram.service.access.audit_log import AuditLog
    from engram.transfer.move import Mover

Direction = Literal["sqlite-to-postgres", "postgres-to-sqlite"]
"""From where to where organisations are moved."""


@asynccontextmanager
async def open_service(
    settings: Settings, *, clock: Clock | None = None, ids: IdSource | None = None
) -> AsyncGenerator[Service]:
    """Open the store and yield the service on it; close the store afterwards."""
    clock = clock or SystemClock()
    ids = ids or RandomIds()
    activity = Activity()
    log = _build_audit_log(settings, activity)
    store = _build_store(settings, clock=clock, ids=ids, announce=log and log.put)
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
        target = PostgresTarget(url, clock=clock, ids=ids)
    else:
        source = PostgresSource(url)
        target = SqliteTarget(settings.home, clock=clock, ids=ids)
    try:
        await source.open()
        await target.open(only_look=only_plan)
        yield Mover(source, target, clock=clock)
    finally:
        await target.close()
        await source.close()


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
        from engram.storage.postgres.sharding import distribute  # noqa: PLC0415 few installations do
    return distribute(url, dry_run=dry_run)


def shard_tables(
    settings: Settings, servers: Sequence[str], *, dry_run: bool
) -> Sequence[tuple[str, str]]:
    """Spread the tables over servers through foreign tables; return what is run, and where.

    Raises:
        ConfigurationError: the settings name no database.
        ConflictError: one of the databases does not allow it.
    """
    url = _database_url(settings)
    with _explained_imports():
        from engram.storage.postgres.sharding import shard  # noqa: PLC0415 few installations do
    return shard(url, servers, dry_run=dry_run)


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

    tools = Tools(
        store=store,
        tiers=tiers,
        language=language,
        clock=clock,
        access=access,
        activity=activity,
        trail=trail,
        meter=meter,
        background=Background(
            store,
            indexer=indexer,
            documents=document_indexing,
            owner=ids.new("job_"),
            forget_keys=access.forget_keys,
            tidy_files=tidy_files,
        ),
        document_indexing=document_indexing,
        indexer=indexer,
        data_directory=settings.data_dir,
        document_bytes_max=settings.max_document_bytes,
        raw_document_bytes_max=settings.raw_document_max_bytes,
    )
    service = Service(tools)
    return service


def _build_store(
    settings: Settings, *, clock: Clock, ids: IdSource, announce: Announce | None
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
        staleness_s=settings.database_staleness,
        announce=announce,
        statement_s=settings.database_timeout,
    )


def _build_audit_log(settings: Settings, activity: Activity) -> AuditLog | None:
    if settings.audit_log is None:
        return None
    from engram.service.access.audit_log import build_audit_log  # noqa: PLC0415 few installations have one

    return build_audit_log(settings.audit_log, activity)


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
    """
    files, threads = ModelFiles(settings.model_dir), settings.embedder_threads
    match settings.embedder:
        case LocalModel(name):
            return _local_tiers(known_model(name), files, threads=threads, clock=clock)
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


def _local_tiers(model: KnownModel, files: ModelFiles, *, threads: int, clock: Clock) -> Tiers:
    instant = StaticEmbedder(POTION, files, clock=clock)
    if model.kind == "static":
        return Tiers.of(instant=instant)
    deep = OnnxEmbedder(
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
