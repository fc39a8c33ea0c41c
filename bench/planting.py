"""Vectors for stores too large to embed here: at random around real ones, written at once.

They lie as the model's do, but not where their own texts would. So what is near a query in them and
what shares its words are different messages, which is the most that a search can find.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from bench.bare import bare_model
from bench.filling import fill_messages
from bench.opening import open_parts
from bench.texts import chat
from engram.embedding.choice import NoEmbedder
from engram.embedding.registry import ARCTIC, POTION, KnownModel
from engram.model.access import OrganizationDraft, Principal
from engram.settings import Settings
from engram.vectors.arrays import Floats
from engram.vectors.quantise import pack_blobs, quantise

CENTRES = 200
SPREAD = 0.6
"""How long the random part is beside the real one: a cosine of 0.86 with the centre."""

BATCH = 10_000
PASSAGE_CHARACTERS = 2_000
"""About the 480 tokens that the model reads at once."""


@cache
def _centres() -> Floats:
    model = bare_model()
    return np.stack([model.embed_passage(text) for text in chat(CENTRES)])


def planted_vectors(random: np.random.Generator, count: int) -> Floats:
    """Return vectors at random around those of real texts."""
    centres = _centres()
    noise = random.standard_normal((count, centres.shape[1]), dtype=np.float32)
    noise *= SPREAD / centres.shape[1] ** 0.5
    noise += centres[random.integers(0, len(centres), count)]
    return noise


@dataclass(frozen=True, slots=True)
class PlantedStore:
    """A closed store whose messages all have deep vectors, and how to ask for them."""

    principal: Principal
    path: Path
    """The organisation's file."""
    api_key: str


async def plant_store(home: Path, *, messages: int, is_local: bool = False) -> PlantedStore:
    """Return a new store of so many messages with planted vectors.

    They belong to the organisation that a server finds by the key, or that stdio serves.
    """
    async with open_parts(Settings(home=home, embedder=NoEmbedder())) as parts:
        if is_local:
            principal, api_key = await parts.service.access.local_principal(), ""
        else:
            draft = OrganizationDraft(name="bench")
            made, key = await parts.service.operator.create_organization(draft)
            principal, api_key = await parts.service.operator.act_for(made.id), key.secret
        await fill_messages(parts.service, principal, messages=messages)
    path = home / "orgs" / f"{principal.organization_id}.db"
    plant_vectors(path)
    return PlantedStore(principal, path, api_key)


def plant_vectors(path: Path) -> None:
    """Give every message of a closed store its deep vectors, a second one where it is long.

    The store must have been filled without an embedder.
    """
    with closing(sqlite3.connect(path)) as connection, connection:
        (organization,) = connection.execute("SELECT organization_id FROM meta").fetchone()
        deep = _add_embedder(connection, organization, "deep", ARCTIC)
        # Where all messages have deep vectors, the instant ones are gone but not their embedder.
        _add_embedder(connection, organization, "instant", POTION)
        owners = _passages(connection)
        connection.executemany(
            "INSERT INTO vector (seq, organization_id, embedder, key, start_character, "
            "end_character, content) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                (seq, organization, deep, key, start, start + PASSAGE_CHARACTERS, blob)
                for seq, ((key, start), blob) in enumerate(_with_blobs(owners), start=1)
            ),
        )
        connection.execute("UPDATE vector_state SET seq = ?", (len(owners),))
        connection.execute("UPDATE counters SET vectors = ?, pending = 0", (len(owners),))


def _passages(connection: sqlite3.Connection) -> list[tuple[int, int]]:
    """Return the key and first character of what has a vector of its own."""
    rows = connection.execute("SELECT key, characters FROM message ORDER BY key")
    return [
        (key, start)
        for key, characters in rows
        for start in range(0, max(characters, 1), PASSAGE_CHARACTERS)
    ]


def _add_embedder(
    connection: sqlite3.Connection, organization: int, role: str, model: KnownModel
) -> int:
    (number,) = connection.execute(
        "INSERT INTO embedder (organization_id, role, identity) VALUES (?, ?, ?) RETURNING number",
        (organization, role, model.identity.as_text()),
    ).fetchone()
    return number


def _with_blobs(
    owners: Sequence[tuple[int, int]],
) -> Iterator[tuple[tuple[int, int], bytes]]:
    dimensions = ARCTIC.identity.dimensions
    random = np.random.default_rng(7)
    for start in range(0, len(owners), BATCH):
        some = owners[start : start + BATCH]
        rows = quantise(planted_vectors(random, len(some)), dimensions=dimensions)
        yield from zip(some, pack_blobs(rows), strict=True)
