"""The contract of uploads in parts: ordered, repeatable, bounded, unseen before they are finished."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram import limits
from engram.errors import (
    ConflictError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    NotTextError,
    QuotaExceededError,
    RequestTooLargeError,
)
from engram.limits import DOCUMENT_PIECE_BYTES
from engram.model.access import Quota
from engram.model.document import DocumentDraft, DocumentLimits
from engram.model.ids import DocumentId, EpisodeId
from engram.model.memory import MemoryOptions
from engram.storage.organization import OrganizationStore
from tests.fakes import FakeClock
from tests.promises import promise
from tests.storage.document_drafts import (
    BOUNDS,
    PDF,
    begin,
    finish,
    read,
    send,
    upload,
)
from tests.storage.drafts import ACTOR, UNBOUNDED

_HALF = DOCUMENT_PIECE_BYTES // 2
_BINARY = bytes(range(256))


@promise("verbatim")
async def test_parts_are_joined_to_the_body(organization: OrganizationStore) -> None:
    parts = [b"a" * 10, b"b" * DOCUMENT_PIECE_BYTES, b"", b"c" * _HALF, b"d" * (_HALF - 10), b"e"]

    document = await upload(organization, *parts)

    assert await read(organization, document.id) == b"".join(parts)
    assert document.size_bytes == sum(map(len, parts))


@promise("verbatim")
@settings(max_examples=20)
@given(
    size=st.sampled_from([2, _HALF, DOCUMENT_PIECE_BYTES, DOCUMENT_PIECE_BYTES * 2]),
    more=st.integers(-1, 1),
    cuts=st.lists(st.floats(0, 1), max_size=4).map(sorted),
    seed=st.integers(),
)
async def test_any_bytes_come_back_however_they_are_parted(
    organization: OrganizationStore, size: int, more: int, cuts: list[float], seed: int
) -> None:
    body = random.Random(seed).randbytes(size + more)  # noqa: S311 - no secrets
    places = [0, *(int(cut * len(body)) for cut in cuts), len(body)]

    document = await upload(organization, *(body[a:b] for a, b in pairwise(places)), media_type=PDF)

    assert await read(organization, document.id) == body


async def test_an_upload_is_not_seen_before_it_is_finished(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    begun = await begin(organization)
    await send(organization, begun.id, b"not yet")

    assert await organization.documents.get([begun.id]) == {}
    with pytest.raises(NotFoundError):
        await read(organization, begun.id)
    assert await organization.memories.scan(None, after=None, limit=10) == ()
    assert (await organization.counters()).documents == 0


async def test_an_upload_says_how_far_it_is_and_when_it_expires(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    begun = await begin(organization)
    clock.advance(timedelta(minutes=5))

    _, sent = await send(organization, begun.id, b"one", b"two")

    assert sent == await organization.documents.get_upload(begun.id)
    assert (sent.parts, sent.received_bytes) == (2, 6)
    assert sent.expires_at == clock.now() + timedelta(minutes=limits.UPLOAD_MINUTES)


@promise("parts")
async def test_the_last_part_again_changes_nothing(organization: OrganizationStore) -> None:
    begun = await begin(organization)
    _, once = await send(organization, begun.id, b"one", b"two")

    (again,) = await send(organization, begun.id, b"two", first=1)

    assert again == once
    document = (await finish(organization, begun.id)).document
    assert await read(organization, document.id) == b"onetwo"


@pytest.mark.parametrize(("part", "data"), [(0, b"one"), (1, b"other"), (3, b"four"), (-1, b"x")])
async def test_a_part_that_is_not_due_is_refused(
    organization: OrganizationStore, part: int, data: bytes
) -> None:
    begun = await begin(organization)
    await send(organization, begun.id, b"one", b"two")

    with pytest.raises(ConflictError):
        await send(organization, begun.id, data, first=part)

    assert (await organization.documents.get_upload(begun.id)).received_bytes == 6


async def test_the_same_part_sent_twice_at_once_is_kept_once(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    begun = await begin(organization)

    await asyncio.gather(
        *(send(store, begun.id, b"part" * 9_000) for store in (organization, elsewhere) * 3)
    )

    assert (await organization.documents.get_upload(begun.id)).received_bytes == 36_000


@promise("parts")
async def test_another_process_takes_an_upload_on(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    begun = await begin(organization)
    await send(organization, begun.id, b"begun here, ")
    await send(elsewhere, begun.id, b"finished there", first=1)

    document = (await finish(elsewhere, begun.id)).document

    assert await read(organization, document.id) == b"begun here, finished there"


@promise("parts")
async def test_a_finished_upload_is_finished_again_with_the_first_answer(
    organization: OrganizationStore,
) -> None:
    begun = await begin(organization)
    await send(organization, begun.id, b"body")

    assert await finish(organization, begun.id) == await finish(organization, begun.id)
    with pytest.raises(NotFoundError):
        await organization.documents.get_upload(begun.id)
    with pytest.raises(ConflictError):
        await send(organization, begun.id, b"more", first=1)


@promise("parts")
async def test_finishing_at_once_makes_one_document(
    organization: OrganizationStore, elsewhere: OrganizationStore
) -> None:
    begun = await begin(organization)
    await send(organization, begun.id, b"body")

    stored = await asyncio.gather(
        *(finish(store, begun.id) for store in (organization, elsewhere) * 2)
    )

    assert len({each.document.memory_id for each in stored}) == 1
    assert (await organization.counters()).documents == 1


@promise("all-or-nothing")
@pytest.mark.parametrize(
    ("draft", "parts", "error"),
    [
        ({}, [], InvalidRequestError),
        ({}, [b""], InvalidRequestError),
        ({"size_bytes": 5}, [b"four"], InvalidRequestError),
        ({"media_type": "text/markdown"}, [b"caf\xe9 au lait"], NotTextError),
        ({}, [b"cut off \xe2\x82"], NotTextError),
        ({"media_type": "application/octet-stream"}, [_BINARY], NotTextError),
    ],
)
async def test_what_is_no_document_leaves_nothing(
    organization: OrganizationStore,
    draft: dict[str, object],
    parts: list[bytes],
    error: type[Exception],
) -> None:
    begun = await begin(organization, **draft)
    await send(organization, begun.id, *parts)

    with pytest.raises(error):
        await finish(organization, begun.id)

    with pytest.raises(NotFoundError):
        await organization.documents.get_upload(begun.id)
    assert not await organization.documents.abort_upload(begun.id)


async def test_more_than_was_announced_is_refused_at_once(
    organization: OrganizationStore,
) -> None:
    begun = await begin(organization, size_bytes=5)

    with pytest.raises(InvalidRequestError):
        await send(organization, begun.id, b"four", b"!!")

    with pytest.raises(NotFoundError):
        await send(organization, begun.id, b"!", first=1)


@promise("all-or-nothing")
async def test_a_document_above_every_tier_is_refused(organization: OrganizationStore) -> None:
    with pytest.raises(RequestTooLargeError):
        await begin(organization, size_bytes=BOUNDS.raw_bytes_max + 1)
    begun = await begin(organization)
    await send(organization, begun.id, b"x" * BOUNDS.raw_bytes_max)

    with pytest.raises(RequestTooLargeError):
        await send(organization, begun.id, b"x", first=1)

    with pytest.raises(NotFoundError):
        await finish(organization, begun.id)


async def test_a_bound_that_was_lowered_meanwhile_counts(organization: OrganizationStore) -> None:
    begun = await begin(organization)
    await send(organization, begun.id, b"x" * 20)

    with pytest.raises(RequestTooLargeError):
        await finish(organization, begun.id, bounds=DocumentLimits(raw_bytes_max=10))

    assert not await organization.documents.abort_upload(begun.id)


@promise("all-or-nothing")
async def test_a_document_that_passes_the_quota_leaves_nothing(
    organization: OrganizationStore,
) -> None:
    begun = await begin(organization)
    await send(organization, begun.id, b"x" * 20)

    with pytest.raises(QuotaExceededError):
        await finish(organization, begun.id, quota=Quota(bytes_max=19))

    assert not await organization.documents.abort_upload(begun.id)
    assert (await organization.counters()).content_bytes == 0


async def test_an_upload_that_rests_expires(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    begun, other = await begin(organization), await begin(organization)
    await send(organization, begun.id, b"x" * DOCUMENT_PIECE_BYTES)
    clock.advance(timedelta(minutes=limits.UPLOAD_MINUTES - 1))
    await send(organization, other.id, b"still under way")
    clock.advance(timedelta(minutes=1))

    with pytest.raises(NotFoundError):
        await send(organization, begun.id, b"too late", first=1)
    with pytest.raises(NotFoundError):
        await finish(organization, begun.id)
    assert await organization.documents.drop_expired_uploads() == 1
    assert await organization.documents.drop_expired_uploads() == 0
    assert (await organization.documents.get_upload(other.id)).parts == 1


async def test_uploads_under_way_are_bounded(
    organization: OrganizationStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "UPLOADS_MAX", 2)
    first, _ = await begin(organization), await begin(organization)

    with pytest.raises(LimitExceededError):
        await begin(organization)

    assert await organization.documents.abort_upload(first.id)
    await begin(organization)
    clock.advance(timedelta(minutes=limits.UPLOAD_MINUTES))
    await begin(organization)


async def test_an_upload_of_an_unknown_episode_is_refused(organization: OrganizationStore) -> None:
    draft = DocumentDraft(options=MemoryOptions(episode_id=EpisodeId("ep_none")))

    with pytest.raises(NotFoundError):
        await organization.documents.begin_upload(draft, actor=ACTOR, limits=BOUNDS)


async def test_another_organisation_does_not_know_an_upload(
    organization: OrganizationStore, other: OrganizationStore
) -> None:
    begun = await begin(organization)

    with pytest.raises(NotFoundError):
        await send(other, begun.id, b"mine?")
    with pytest.raises(NotFoundError):
        await other.documents.finish_upload(begun.id, actor=ACTOR, quota=UNBOUNDED, limits=BOUNDS)
    with pytest.raises(NotFoundError):
        await other.documents.get_upload(begun.id)
    assert not await other.documents.abort_upload(begun.id)
    assert not await organization.documents.abort_upload(DocumentId("doc_none"))
    assert (await organization.documents.get_upload(begun.id)).parts == 0
