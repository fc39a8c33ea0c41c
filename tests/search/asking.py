"""Shortcuts to store messages and search for them, with and without embedders."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial

from engram.embedding.hashed import HashedEmbedder
from engram.embedding.passages import EmbeddedText, embed_texts, instant_splitting
from engram.embedding.port import Embedder
from engram.embedding.tiers import Tiers
from engram.model.access import Quota
from engram.model.conversation import AppendRequest, ConversationDraft, MessageDraft
from engram.model.ids import ConversationId
from engram.model.search import SearchAnswer, SearchRequest
from engram.model.vectors import WORDS_ALONE, Indexing, NewVectors, Tier
from engram.search import pipeline
from engram.search.candidates import SearchSession
from engram.search.query import QueryEmbedder
from engram.storage.organization import OrganizationStore
from tests.fakes import SOME_DAY

NO_EMBEDDER = Tiers()


async def add(
    store: OrganizationStore, *contents: str, indexing: Indexing = WORDS_ALONE
) -> ConversationId:
    """Store messages in a conversation of their own."""
    conversation_id = await store.create_conversation(ConversationDraft(), actor="test")
    drafts = tuple(MessageDraft(role="user", content=content) for content in contents)
    request = AppendRequest(conversation_id=conversation_id, messages=drafts)
    await store.append_messages(request, actor="test", quota=Quota(), indexing=indexing)
    return conversation_id


async def meant(*contents: str, embedder: Embedder | None = None, tier: Tier = "deep") -> Indexing:
    """Return the vectors that an append of these texts stores."""
    embedder = embedder or HashedEmbedder()
    identity = await embedder.identify()
    texts = [EmbeddedText(None, content) for content in contents]
    messages = await embed_texts(texts, embedder, splitting=instant_splitting())
    vectors = NewVectors(tier=tier, identity=identity.as_text(), messages=messages)
    return Indexing(vectors=vectors, is_queued=tier == "instant")


async def add_meant(
    store: OrganizationStore,
    *contents: str,
    embedder: Embedder | None = None,
    tier: Tier = "deep",
) -> ConversationId:
    """Store messages with their vectors in a conversation of their own."""
    indexing = await meant(*contents, embedder=embedder, tier=tier)
    return await add(store, *contents, indexing=indexing)


async def search(
    request: SearchRequest,
    store: OrganizationStore,
    *,
    tiers: Tiers = NO_EMBEDDER,
    turn: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> SearchAnswer:
    """Search with these embedders, when it is the search's turn."""
    embed = partial(QueryEmbedder(tiers).embed, organization_id=store.organization_id)
    session = SearchSession(store=store, embed=embed, at=SOME_DAY, turn=turn)
    return await pipeline.search(request, session)


def contents_of(answer: SearchAnswer) -> list[str]:
    """Return the messages found, in their order."""
    return [found.message.content for result in answer.results for found in result.messages]
