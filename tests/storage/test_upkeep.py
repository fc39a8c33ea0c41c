"""The contract of upkeep: counters, and the backfill of legacy rows, beside live traffic."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from engram.errors import StoreCorruptError
from engram.limits import STORED_ROW_BYTES
from engram.model.ids import ConversationId
from engram.model.status import BackfillReport, Counters
from engram.storage.content import compression
from engram.storage.organization import OrganizationStore
from tests.promises import promise
from tests.storage.drafts import (
    ACTOR,
    append,
    begin,
    encodings,
    findings,
    opened,
    read_texts,
    sentence,
)

LONG = "a text long enough to be worth compressing, " * 10


def insert_legacy(
    folder: Path, organization: OrganizationStore, texts: Sequence[tuple[str, str | None]]
) -> None:
    """Turn the stored messages, in order, into rows as an older system wrote them."""
    with opened(folder, organization) as connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM message ORDER BY key")]
        for key, (text, encoding) in zip(keys, texts, strict=True):
            packed = base64.b64encode(gzip.compress(text.encode())).decode()
            content = text if encoding is None else packed
            digest = hashlib.sha256(text.encode()).digest()
            connection.execute(
                "UPDATE message SET content = ?, content_encoding = ?, sha256 = ? WHERE key = ?",
                (content, encoding, digest, key),
            )


@promise("one-truth")
async def test_counters_stay_true_through_a_random_walk(organization: OrganizationStore) -> None:
    chance = random.Random(5)  # noqa: S311 - no secrets
    texts: dict[ConversationId, list[str]] = {}
    for _ in range(80):
        action = chance.choice(["begin", "append", "append", "append", "delete"])
        if action == "begin" or not texts:
            texts[await begin(organization)] = []
        elif action == "append":
            conversation_id = chance.choice(sorted(texts))
            added = [sentence(chance.randrange(99)) for _ in range(chance.randrange(1, 9))]
            await append(organization, *added, to=conversation_id)
            texts[conversation_id] += added
        else:
            conversation_id = chance.choice(sorted(texts))
            await organization.delete_conversation(conversation_id, actor=ACTOR)
            del texts[conversation_id]

    lengths = [len(said) for said in texts.values()]
    assert await organization.counters() == Counters(
        conversations=len(texts),
        messages=sum(lengths),
        content_bytes=sum(len(text.encode()) for said in texts.values() for text in said),
        chunks=sum(1 + max(0, -(-(length - 5) // 3)) for length in lengths if length),
        vectors=0,
        pending=0,
        stored_bytes=sum(
            STORED_ROW_BYTES + len(text.encode()) for said in texts.values() for text in said
        )
        + len(texts) * (STORED_ROW_BYTES + len("default{}")),
    )
    coverage = await organization.coverage()
    assert coverage.messages == coverage.messages_indexed == sum(lengths)
    assert await findings(organization) == []


@promise("encodings")
async def test_rows_of_the_legacy_encodings_are_read_and_appended_to(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    texts = ["short", LONG, LONG]
    conversation_id = await begin(organization, *texts)
    insert_legacy(
        tmp_path, organization, list(zip(texts, [None, None, "gzip+base64"], strict=True))
    )

    await append(elsewhere, "new", to=conversation_id)

    assert await read_texts(organization, conversation_id) == [*texts, "new"]
    assert await findings(organization) == []


@promise("backfill")
async def test_the_backfill_brings_legacy_rows_up_in_batches(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    texts = ["short", LONG, LONG, "x", LONG]
    conversation_id = await begin(organization, *texts)
    legacy = [None, None, "gzip+base64", None, "gzip+base64"]
    insert_legacy(tmp_path, organization, list(zip(texts, legacy, strict=True)))

    reports = [await organization.compress_backfill(batch_size=size) for size in (0, 2, 2, 2, 2)]

    assert [(report.processed, report.compressed) for report in reports] == [
        (0, 0),
        (2, 1),
        (2, 1),
        (1, 1),
        (0, 0),
    ]
    assert [report.skipped_too_small for report in reports] == [0, 1, 1, 0, 0]
    assert [report.remaining for report in reports] == [5, 3, 1, 0, 0]
    assert encodings(tmp_path, organization) == ["raw", "zstd", "zstd", "raw", "zstd"]
    assert await read_texts(organization, conversation_id) == texts
    assert await findings(organization) == []


async def test_a_new_store_has_nothing_to_backfill(organization: OrganizationStore) -> None:
    await append(organization, LONG, "short")

    report = await organization.compress_backfill(batch_size=100)

    assert report == BackfillReport(processed=0, compressed=0, skipped_too_small=0, remaining=0)


@promise("backfill")
async def test_the_backfill_runs_beside_appends_and_deletions(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    doomed = await begin(organization, *[LONG] * 20)
    kept = await begin(organization, *[LONG] * 20)
    insert_legacy(tmp_path, organization, [(LONG, None)] * 40)

    await asyncio.gather(
        *[organization.compress_backfill(batch_size=10) for _ in range(4)],
        elsewhere.delete_conversation(doomed, actor=ACTOR),
        *[append(elsewhere, LONG, to=kept) for _ in range(5)],
    )
    while (await organization.compress_backfill(batch_size=10)).remaining:
        continue

    assert await read_texts(organization, kept) == [LONG] * 25
    assert set(encodings(tmp_path, organization)) == {"zstd"}
    assert await findings(organization) == []


@promise("backfill")
async def test_a_batch_of_long_rows_is_cut_short(
    organization: OrganizationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append(organization, *[LONG] * 5)
    insert_legacy(tmp_path, organization, [(LONG, None)] * 5)
    monkeypatch.setattr(compression, "BATCH_CHARACTERS", len(LONG))

    report = await organization.compress_backfill(batch_size=5)

    assert (report.processed, report.remaining) == (2, 3)


@promise("backfill")
async def test_the_backfill_refuses_a_damaged_row_aloud(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await append(organization, "as it was")
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE message SET content_encoding = NULL, content = 'changed'")

    with pytest.raises(StoreCorruptError):
        await organization.compress_backfill(batch_size=10)
