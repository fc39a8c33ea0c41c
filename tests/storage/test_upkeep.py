"""The contract of upkeep: counters, backfill, dictionaries and reindexing, beside live traffic."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from engram.errors import ConflictError, StoreCorruptError, StoreNewerError
from engram.model.conversation import MessageQuery
from engram.model.ids import ConversationId
from engram.model.search import SearchFilters
from engram.model.status import BackfillReport, Counters
from engram.storage.ports import OrganizationStore
from engram.storage.sqlite import backfill, rebuild, state, training
from engram.storage.sqlite.store import SqliteStore
from engram.text.analyse import ANALYSER_VERSION, query_terms
from tests.fakes import FakeClock, SequentialIds
from tests.storage.drafts import ACTOR, append, begin, findings, opened, read_texts

WORDS = [
    "memory",
    "agents",
    "keep",
    "what",
    "was",
    "said",
    "and",
    "find",
    "it",
    "again",
    "by",
    "meaning",
    "or",
    "by",
    "the",
    "very",
    "word",
]
LONG = "a text long enough to be worth compressing, " * 10


def sentence(number: int) -> str:
    chance = random.Random(number)  # noqa: S311 - no secrets
    return " ".join(chance.choice(WORDS) for _ in range(40))


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


def encodings(folder: Path, organization: OrganizationStore) -> list[str | None]:
    with opened(folder, organization) as connection:
        rows = connection.execute("SELECT content_encoding FROM message ORDER BY key")
        return [encoding for (encoding,) in rows]


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
    )
    coverage = await organization.coverage()
    assert coverage.messages == coverage.messages_indexed == sum(lengths)
    assert coverage.windows == coverage.windows_indexed
    assert await findings(organization) == []


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


async def test_a_batch_of_long_rows_is_cut_short(
    organization: OrganizationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await append(organization, *[LONG] * 5)
    insert_legacy(tmp_path, organization, [(LONG, None)] * 5)
    monkeypatch.setattr(backfill, "BATCH_CHARACTERS", len(LONG))

    report = await organization.compress_backfill(batch_size=5)

    assert (report.processed, report.remaining) == (2, 3)


async def test_the_backfill_refuses_a_damaged_row_aloud(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await append(organization, "as it was")
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE message SET content_encoding = NULL, content = 'changed'")

    with pytest.raises(StoreCorruptError):
        await organization.compress_backfill(batch_size=10)


async def fill(organization: OrganizationStore, messages: int, *, start: int = 0) -> ConversationId:
    conversation_id = await begin(organization)
    for first in range(start, start + messages, 200):
        await append(
            organization,
            *[sentence(number) for number in range(first, min(first + 200, start + messages))],
            to=conversation_id,
        )
    return conversation_id


async def test_a_dictionary_is_asked_for_once_there_is_enough_text(
    organization: OrganizationStore,
) -> None:
    async def due() -> int:
        jobs = await organization.claim_jobs(
            [training.JOB_KIND], owner="me", lease=rebuild.PATIENCE, limit=10
        )
        for job in jobs:
            assert await organization.finish_job(job, owner="me")
        return len(jobs)

    await append(organization, "little")
    assert await due() == 0
    while (await organization.counters()).content_bytes < training.FIRST_DUE_BYTES:
        await fill(organization, 200)
    assert await due() == 1
    await fill(organization, 200)
    assert await due() == 0


async def test_a_dictionary_serves_new_messages_of_every_process(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    conversation_id = await fill(organization, 600)

    assert await organization.train_dictionary()
    await append(organization, sentence(5_000), to=conversation_id)
    await append(elsewhere, "learns of the dictionary", to=conversation_id)
    await append(elsewhere, sentence(5_001), to=conversation_id)

    assert encodings(tmp_path, organization)[-3::2] == ["zstd:1", "zstd:1"]
    query = MessageQuery(conversation_id=conversation_id, around_sequence=601)
    assert (await elsewhere.get_conversation(query)).messages[-1].content == sentence(5_001)
    assert await findings(organization) == []


async def test_a_process_learns_of_a_dictionary_by_appending(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path
) -> None:
    await fill(organization, 600)
    await organization.train_dictionary()
    conversation_id = await begin(elsewhere)

    for number in range(3):
        await append(elsewhere, sentence(5_000 + number), to=conversation_id)

    assert encodings(tmp_path, organization)[-3:] == ["zstd", "zstd:1", "zstd:1"]


async def test_a_dictionary_is_trained_on_some_of_the_text_and_without_the_damaged(
    organization: OrganizationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(organization, 800)
    monkeypatch.setattr(training, "SAMPLE_BYTES_MAX", 150_000)
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE message SET content = 'x' WHERE key % 50 = 0")

    assert await organization.train_dictionary()

    with opened(tmp_path, organization) as connection:
        (trained,) = connection.execute("SELECT trained_bytes FROM dictionary").fetchone()
    assert 150_000 <= trained < 151_000


async def test_a_message_of_an_unseen_dictionary_is_read(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    await fill(organization, 600)
    await organization.train_dictionary()
    conversation_id = await begin(organization, sentence(5_000))

    assert await read_texts(elsewhere, conversation_id) == [sentence(5_000)]


async def test_dictionaries_follow_each_other_and_all_stay_readable(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    await fill(organization, 600)
    conversation_id = await begin(organization)

    for number in range(3):
        assert await organization.train_dictionary()
        await append(organization, sentence(5_000 + number), to=conversation_id)

    assert encodings(tmp_path, organization)[-3:] == ["zstd:1", "zstd:2", "zstd:3"]
    expected = [sentence(5_000 + number) for number in range(3)]
    assert await read_texts(organization, conversation_id) == expected


@pytest.mark.parametrize("damage", ["content = x'00'", "content = zeroblob(20000)", "id = 9"])
async def test_a_damaged_dictionary_shows_in_its_messages_alone(
    organization: OrganizationStore, elsewhere: OrganizationStore, tmp_path: Path, damage: str
) -> None:
    plain = await fill(organization, 600)
    assert await organization.train_dictionary()
    conversation_id = await begin(organization, sentence(5_000))
    with opened(tmp_path, organization) as connection:
        connection.execute(f"UPDATE dictionary SET {damage}")  # noqa: S608 - fixed texts

    with pytest.raises(StoreCorruptError):
        await read_texts(elsewhere, conversation_id)

    assert len(await read_texts(elsewhere, plain)) == 500
    assert {finding.check for finding in await findings(elsewhere)} == {"hashes", "words"}
    await append(elsewhere, sentence(5_001), to=plain)
    assert (await elsewhere.counters()).messages == 602


async def test_too_little_text_gives_no_dictionary(organization: OrganizationStore) -> None:
    await fill(organization, 200)

    assert not await organization.train_dictionary()


async def test_text_without_repetition_gives_no_dictionary(
    organization: OrganizationStore,
) -> None:
    noise = [
        base64.b85encode(hashlib.shake_256(str(number).encode()).digest(1_200)).decode()
        for number in range(200)
    ]
    await append(organization, *noise)

    assert not await organization.train_dictionary()


async def find(organization: OrganizationStore, word: str) -> int:
    found = await organization.search_words(query_terms(word), filters=SearchFilters(), limit=1_000)
    return sum(candidate.share_message > 0 for candidate in found.candidates)


async def test_reindexing_gives_the_same_indexes(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    first = await begin(organization, *[f"apple {number}" for number in range(12)])
    await begin(organization)

    assert await organization.reindex() == 12

    assert await findings(organization) == []
    assert await find(elsewhere, "apple") == 12
    await append(elsewhere, "apple 13", to=first)
    assert await find(organization, "apple") == 13
    assert await findings(organization) == []


async def test_an_empty_store_can_be_reindexed(organization: OrganizationStore) -> None:
    assert await organization.reindex() == 0
    assert await findings(organization) == []


async def test_searches_and_writes_stay_right_while_reindexing(
    organization: OrganizationStore,
    elsewhere: OrganizationStore,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rebuild, "BATCH_MESSAGES", 8)
    ids = [await begin(organization, *["apple"] * 10) for _ in range(10)]
    reindexing = asyncio.create_task(organization.reindex())
    expected = 100

    for number, conversation_id in enumerate(ids):
        for store in (organization, elsewhere):
            await append(store, "apple pie", to=conversation_id)
            expected += 1
            assert await find(store, "apple") == expected
        if number % 3 == 0:
            await elsewhere.delete_conversation(conversation_id, actor=ACTOR)
            expected -= 12
        await begin(elsewhere, "apple")
        expected += 1
        assert await find(organization, "apple") == expected

    await reindexing
    assert await find(elsewhere, "apple") == expected
    assert await findings(organization) == []


async def test_of_two_reindexes_at_once_one_goes_on(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    for _ in range(5):
        await begin(organization, *["apple"] * 10)

    results = await asyncio.gather(
        organization.reindex(), elsewhere.reindex(), return_exceptions=True
    )

    assert all(result == 50 or isinstance(result, ConflictError) for result in results)
    assert 50 in results
    assert await findings(organization) == []


@pytest.mark.parametrize("by", ["opening", "appending"])
async def test_what_a_dead_reindex_left_is_cleared_away(
    organization: OrganizationStore, tmp_path: Path, clock: FakeClock, by: str
) -> None:
    conversation_id = await begin(organization, *["apple"] * 10)
    with opened(tmp_path, organization) as connection:
        for table in ("message_words_next", "window_words_next"):
            connection.execute(f"CREATE VIRTUAL TABLE {table} USING fts5(words, content = '')")
        connection.execute(
            "UPDATE upkeep SET rebuild_id = 'job_dead', rebuild_version = ?, rebuild_upto = 0,"
            " rebuild_until = 1",
            (ANALYSER_VERSION,),
        )
    assert [finding.check for finding in await findings(organization)] == ["jobs"]

    if by == "opening":
        reopened = SqliteStore(tmp_path / "store", clock=clock, ids=SequentialIds())
        await reopened.open()
        await reopened.organization(organization.organization_id)
        await reopened.close()
    else:
        await append(organization, "apple", to=conversation_id)

    assert await findings(organization) == []
    with opened(tmp_path, organization) as connection:
        names = connection.execute("SELECT name FROM sqlite_schema WHERE name LIKE '%_next%'")
        assert names.fetchall() == []


async def test_words_of_an_older_analyser_are_rebuilt_on_opening(
    organization: OrganizationStore, tmp_path: Path, clock: FakeClock
) -> None:
    conversation_id = await begin(organization, *["apple"] * 7)
    with opened(tmp_path, organization) as connection:
        connection.execute("UPDATE upkeep SET analyser_version = 0")
        connection.execute("INSERT INTO message_words (message_words) VALUES ('delete-all')")

    reopened = SqliteStore(tmp_path / "store", clock=clock, ids=SequentialIds())
    await reopened.open()
    mine = await reopened.organization(organization.organization_id)

    assert await find(mine, "apple") == 7
    await append(mine, "apple", to=conversation_id)
    assert await findings(mine) == []
    await reopened.close()


@pytest.mark.parametrize("column", ["analyser_version", "rebuild_version"])
async def test_words_of_a_newer_analyser_are_left_alone(
    organization: OrganizationStore, tmp_path: Path, clock: FakeClock, column: str
) -> None:
    conversation_id = await begin(organization, "text")
    with opened(tmp_path, organization) as connection:
        connection.execute(f"UPDATE upkeep SET {column} = ?", (ANALYSER_VERSION + 1,))  # noqa: S608 - fixed names
    reopened = SqliteStore(tmp_path / "store", clock=clock, ids=SequentialIds())
    await reopened.open()

    for attempt in (
        append(organization, "more", to=conversation_id),
        organization.delete_conversation(conversation_id, actor=ACTOR),
        organization.reindex(),
        reopened.organization(organization.organization_id),
    ):
        with pytest.raises(StoreNewerError):
            await attempt

    assert await read_texts(organization, conversation_id) == ["text"]
    await reopened.close()


def test_the_state_of_a_rebuild_says_which_conversations_it_holds() -> None:
    idle = state.State(0, 0, 1, 0, None, None, None, None)
    under_way = idle._replace(rebuild_upto=5)

    assert under_way.is_in_next(5)
    assert not under_way.is_in_next(6)
    assert not idle.is_in_next(1)
