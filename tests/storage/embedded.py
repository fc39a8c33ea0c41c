"""Stores whose messages have vectors, made by hand of what the words of a text hash to."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from functools import cache

import numpy as np
from numpy.typing import NDArray

from engram.embedding.port import EmbedderIdentity
from engram.model.conversation import AppendRequest
from engram.model.ids import ConversationId, MessageKey
from engram.model.value import replace
from engram.model.vectors import (
    WORDS_ALONE,
    Embedded,
    Indexing,
    NewVectors,
    PassageVector,
    QueryTokens,
    QueryVector,
    Tier,
)
from engram.storage.organization import OrganizationStore
from engram.vectors.quantise import pack_blobs, quantise
from engram.vectors.tokens import TOKEN_BYTES, TOKEN_DIMENSIONS, pack_tokens
from tests.storage.drafts import ACTOR, UNBOUNDED, drafts
from tests.storage.finding import find_candidates

OWNER = "job_test"
PASSAGE_CHARACTERS = 20
_SIGNS = np.random.default_rng(1).choice([-1.0, 1.0], TOKEN_DIMENSIONS)


def identity_of(name: str, *, dimensions: int = 16) -> str:
    """Return the identity of an embedder."""
    return EmbedderIdentity(
        name=name,
        revision="1",
        dimensions=dimensions,
        max_tokens=8,
        query_prefix="",
        passage_prefix="",
        pooling="mean",
    ).as_text()


QUICK = identity_of("quick", dimensions=8)
DEEP = identity_of("deep")
OTHER = identity_of("other", dimensions=24)


def vector_of(text: str, identity: str) -> NDArray[np.float32]:
    """Return the sum of the directions of a text's words."""
    dimensions = EmbedderIdentity.from_text(identity).dimensions
    words = [_direction(word, identity, dimensions) for word in text.split() or [""]]
    return np.stack(words).sum(axis=0)


@cache
def _direction(word: str, identity: str, dimensions: int) -> NDArray[np.float32]:
    digest = hashlib.blake2b(f"{identity} {word}".encode(), digest_size=dimensions).digest()
    return np.frombuffer(digest, dtype=np.int8).astype(np.float32) + np.float32(0.5)


def passages_of(text: str, identity: str) -> list[PassageVector]:
    """Return the vectors of a text, a passage for every few characters."""
    starts = range(0, max(len(text), 1), PASSAGE_CHARACTERS)
    ends = [min(start + PASSAGE_CHARACTERS, len(text)) for start in starts]
    vectors = [
        vector_of(text[start:end], identity) for start, end in zip(starts, ends, strict=True)
    ]
    blobs = pack_blobs(quantise(vectors, dimensions=len(vectors[0])))
    return [
        PassageVector(start=start, end=end, content=blob)
        for start, end, blob in zip(starts, ends, blobs, strict=True)
    ]


def whole_of(text: str, identity: str) -> PassageVector:
    """Return the vector of a text as one passage."""
    vector = vector_of(text, identity)
    (blob,) = pack_blobs(quantise(vector[np.newaxis], dimensions=len(vector)))
    return PassageVector(start=0, end=len(text), content=blob)


def token_rows(text: str) -> NDArray[np.float32]:
    """Return a unit vector for each word of a text."""
    rows = np.stack([_direction(word, "token", TOKEN_BYTES) for word in text.split()])
    wide = np.tile(rows, (1, TOKEN_DIMENSIONS // TOKEN_BYTES)) * _SIGNS
    return (wide / np.linalg.norm(wide, axis=1, keepdims=True)).astype(np.float32)


def asking_tokens(text: str, identity: str) -> QueryVector:
    """Return a query with the vectors of its words, all of one weight."""
    rows = token_rows(text)
    tokens = QueryTokens(vectors=rows, weights=np.ones(len(rows)))
    vector = vector_of(text, identity)
    return QueryVector(tier="deep", identity=identity, vector=vector, tokens=tokens)


def with_tokens(text: str, identity: str) -> PassageVector:
    """Return the vector of a text as one passage, and those of its words."""
    return replace(whole_of(text, identity), tokens=pack_tokens(token_rows(text)))


def indexing_of(texts: Sequence[str], *, tier: Tier, identity: str) -> Indexing:
    """Return what an append of these texts stores of their meaning."""
    messages = [passages_of(text, identity) for text in texts]
    vectors = NewVectors(tier=tier, identity=identity, messages=messages)
    return Indexing(vectors=vectors, is_queued=tier == "instant")


async def append_meant(
    organization: OrganizationStore,
    *texts: str,
    to: ConversationId | None = None,
    tier: Tier | None = "instant",
    identity: str = QUICK,
) -> ConversationId:
    """Append messages with vectors of one tier, or with none."""
    indexing = WORDS_ALONE if tier is None else indexing_of(texts, tier=tier, identity=identity)
    request = AppendRequest(messages=drafts(*texts), conversation_id=to)
    receipt = await organization.append_messages(
        request, actor=ACTOR, quota=UNBOUNDED, indexing=indexing
    )
    return receipt.conversation_id


async def embed_waiting(
    organization: OrganizationStore, *, identity: str = DEEP, limit: int = 100
) -> int:
    """Give deep vectors to messages that wait for them; return to how many."""
    assert await organization.adopt_embedder(identity)
    claimed = await organization.claim_unembedded(
        owner=OWNER, lease=timedelta(minutes=1), limit=limit, characters_max=1_000_000
    )
    embedded = [
        Embedded(key=message.key, passages=passages_of(message.content, identity))
        for message in claimed
    ]
    return await organization.store_vectors(identity, embedded, owner=OWNER)


async def nearest(
    organization: OrganizationStore, text: str, *, identity: str = DEEP, tier: Tier = "deep"
) -> MessageKey | None:
    """Return the message whose vectors are nearest to a text, by meaning alone."""
    query = QueryVector(tier=tier, identity=identity, vector=vector_of(text, identity))
    found = await find_candidates(organization, [], vectors=[query])
    if np.isnan(found.cosine).all():
        return None
    return MessageKey(int(found.keys[int(np.nanargmax(found.cosine))]))


async def reembed_some(
    organization: OrganizationStore, identity: str, *, limit: int = 100
) -> list[MessageKey]:
    """Give some messages vectors of the next embedder; return which."""
    batch = await organization.read_unmoved(
        identity, after=MessageKey(0), limit=limit, characters_max=1_000_000
    )
    embedded = [
        Embedded(key=message.key, passages=passages_of(message.content, identity))
        for message in batch.messages
    ]
    assert await organization.store_next_vectors(identity, embedded) == len(embedded)
    return [message.key for message in batch.messages]


async def reembed(organization: OrganizationStore, identity: str) -> None:
    """Let the vectors of an embedder take over, without a break."""
    assert not (await organization.begin_reembedding(identity)).is_current
    while await reembed_some(organization, identity):
        pass
    assert await organization.finish_reembedding(identity)
