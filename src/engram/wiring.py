"""Builds Engram from its settings; the only module that knows every part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from engram.care.paths import DataDirectory
from engram.clock import Clock, IdSource, RandomIds, SystemClock
from engram.embedding.build import build_tiers
from engram.embedding.choice import RemoteService
from engram.embedding.files import ModelFiles
from engram.embedding.retry import Sleep
from engram.embedding.tiers import Tiers
from engram.language.build import build_language_model
from engram.language.port import LanguageModel
from engram.model.document import DocumentLimits
from engram.retrieval.question import Questions
from engram.service import Service
from engram.service.access import Access
from engram.service.account import Account
from engram.service.activity import Activity
from engram.service.background import Background
from engram.service.context import Contexts
from engram.service.conversations import Conversations
from engram.service.doctor import Doctor
from engram.service.document_indexing import DocumentIndexing
from engram.service.document_query import DocumentQueries
from engram.service.documents import Documents
from engram.service.indexing import Indexer
from engram.service.keeping import Keeping
from engram.service.maintenance import build_maintenance
from engram.service.meaning import Meaning
from engram.service.memories import Memories
from engram.service.memory_recall import MemoryRecall
from engram.service.notes import Notes
from engram.service.operator import Operator
from engram.service.pace import Pace
from engram.service.rate import RateLimiter
from engram.service.recall import Recall
from engram.service.reembedding import Reembedding
from engram.service.searching import Searching
from engram.settings import Settings
from engram.storage.ports import Store
from engram.storage.sqlite.store import SqliteStore


@asynccontextmanager
async def open_service(
    settings: Settings, *, clock: Clock | None = None, ids: IdSource | None = None
) -> AsyncGenerator[Service]:
    """Open the store and yield the service on it; close the store afterwards."""
    clock = clock or SystemClock()
    ids = ids or RandomIds()
    store = SqliteStore(
        settings.home,
        clock=clock,
        ids=ids,
        vector_bytes_max=settings.vector_memory_mb * 1_000_000,
    )
    await store.open()
    tiers = build_embedders(settings, clock=clock)
    language = build_language_model(
        settings.language_model, key=settings.language_model_key, clock=clock
    )
    try:
        yield build_service(store, tiers, settings, clock=clock, ids=ids, language=language)
    finally:
        if language is not None:
            await language.close()
        await tiers.close()
        await store.close()


def build_service(
    store: Store,
    tiers: Tiers,
    settings: Settings,
    *,
    clock: Clock,
    ids: IdSource,
    language: LanguageModel | None = None,
    sleep: Sleep = asyncio.sleep,
) -> Service:
    """Return the service on an open store; `sleep` is what waits for embedders to come back."""
    activity = Activity()
    meaning = Meaning(tiers)
    # A service's model is no burden to this machine.
    pace = None if isinstance(settings.embedder, RemoteService) else Pace(activity)
    indexer = Indexer(store, tiers, owner=ids.new("job_"), pace=pace, sleep=sleep)
    document_indexing = DocumentIndexing(
        store, indexer, owner=ids.new("job_"), pace=Pace(activity), sleep=sleep
    )
    background = Background(
        store, indexer=indexer, documents=document_indexing, owner=ids.new("job_")
    )
    keeping = Keeping(store, indexer=indexer, background=background, activity=activity)
    reembedding = Reembedding(store, tiers, indexer=indexer)
    limiter = RateLimiter(settings.rate_limit, clock)
    searching = Searching(
        store, questions=Questions(tiers), indexer=indexer, activity=activity, clock=clock
    )
    return Service(
        access=Access(store, clock, limiter, admin_token=settings.admin_token),
        account=Account(store, meaning),
        activity=activity,
        background=background,
        contexts=Contexts(searching),
        conversations=Conversations(
            store, indexer=indexer, background=background, activity=activity
        ),
        doctor=Doctor(store),
        document_indexing=document_indexing,
        document_queries=DocumentQueries(searching, language),
        documents=Documents(
            store,
            indexing=document_indexing,
            background=background,
            clock=clock,
            bounds=DocumentLimits(
                body_bytes_max=settings.max_document_bytes,
                raw_bytes_max=settings.raw_document_max_bytes,
            ),
        ),
        indexer=indexer,
        maintenance=build_maintenance(
            store,
            tiers,
            files=DataDirectory(settings.data_dir),
            language=language,
            keeping=keeping,
            indexer=indexer,
            background=background,
            reembedding=reembedding,
            clock=clock,
        ),
        memories=Memories(
            store, keeping=keeping, indexer=indexer, background=background, clock=clock
        ),
        memory_recall=MemoryRecall(searching),
        notes=Notes(store, keeping=keeping, clock=clock),
        operator=Operator(store, meaning),
        recall=Recall(searching),
        reembedding=reembedding,
    )


def build_embedders(settings: Settings, *, clock: Clock) -> Tiers:
    """Return the embedders that the settings choose; nothing is loaded or asked yet."""
    return build_tiers(
        settings.embedder,
        ModelFiles(settings.model_dir),
        threads=settings.embedder_threads,
        key=settings.embedder_key,
        clock=clock,
    )
