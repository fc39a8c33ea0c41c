"""A memory is the same after it was a file."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import InvalidRequestError
from engram.model.ids import EpisodeId, MemoryId, RelationId
from engram.model.memory import (
    CATEGORIES,
    MEMORY_TYPES,
    RELATION_TYPES,
    Episode,
    Memory,
    MemoryVersion,
    Relation,
)
from engram.model.value import replace
from engram.transfer.markdown import (
    ID_PREFIXES,
    is_exported,
    read_exported,
    write_episode,
    write_memory,
)
from engram.transfer.memories import MemoryRecord
from tests.memories import a_memory
from tests.promises import promise

ID = MemoryId("mem_" + "a" * 21)
ALPHABET = "abcXYZ019_-"

any_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
labels = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20)
moments = st.datetimes(timezones=st.just(UTC))
nanoids = st.text(ALPHABET, min_size=21, max_size=21)


@st.composite
def memories(draw: st.DrawFn) -> Memory:
    """Any memory that could be stored."""
    content = draw(any_text)
    start, end = sorted(draw(st.lists(moments, min_size=2, max_size=2, unique=True)))
    return Memory(
        id=ID,
        content=content,
        memory_type=draw(st.sampled_from(MEMORY_TYPES)),
        category=draw(st.sampled_from(CATEGORIES)),
        source=draw(labels),
        importance=draw(st.integers(0, 4)),
        tags=tuple(draw(st.lists(labels, max_size=3, unique=True))),
        project=draw(labels),
        immutable=draw(st.booleans()),
        episode_id=draw(st.none() | nanoids.map(lambda text: EpisodeId(f"ep_{text}"))),
        pattern_confidence=draw(st.none() | st.floats(0, 1)),
        valid_from=draw(st.sampled_from([None, start])),
        valid_to=draw(st.sampled_from([None, end])),
        expires_at=draw(st.none() | moments),
        storage_mode=draw(st.sampled_from(["focused", "document"])),
        document_id=draw(st.none() | nanoids.map("doc_{}".format)),
        content_hash=hashlib.sha256(content.encode()).hexdigest(),
        summary=draw(st.none() | any_text),
        version=draw(st.integers(1, 1_000)),
        created_at=draw(moments),
        updated_at=draw(moments),
        is_searched=draw(st.booleans()),
        reason=draw(st.none() | any_text),
    )


@st.composite
def records(draw: st.DrawFn) -> MemoryRecord:
    """Any memory with any history and relations."""
    past = draw(st.lists(memories(), max_size=2))
    memory = replace(draw(memories()), version=len(past) + 1, is_searched=True)
    if past and draw(st.booleans()):
        text = {"content": past[-1].content, "content_hash": past[-1].content_hash}
        memory = replace(memory, **text, is_searched=False)
    versions = [
        MemoryVersion(
            memory=replace(each, version=number),
            change=draw(st.sampled_from(("update", "invalidate", "merge"))),
            ended_at=draw(moments),
            actor=draw(labels),
        )
        for number, each in enumerate(past, start=1)
    ]
    relations = st.builds(
        Relation,
        id=nanoids.map(lambda text: RelationId(f"rel_{text}")),
        source_id=st.just(ID),
        target_id=st.just(MemoryId("mem_" + "b" * 21)),
        relation_type=st.sampled_from(RELATION_TYPES),
        strength=st.floats(0, 1),
        created_at=moments,
    )
    return MemoryRecord(
        memory=memory,
        versions=tuple(versions),
        relations=tuple(draw(st.lists(relations, max_size=2))),
    )


A_RECORD = MemoryRecord(
    memory=a_memory(
        "a\r---\n\0b\n",
        id=ID,
        content_hash=hashlib.sha256(b"a\r---\n\0b\n").hexdigest(),
        created_at=datetime(2026, 5, 8, tzinfo=UTC),
        updated_at=datetime(2026, 5, 8, tzinfo=UTC),
    )
)


@promise("verbatim")
@given(records())
def test_every_field_survives_and_the_text_is_byte_for_byte_the_same(record: MemoryRecord) -> None:
    page = write_memory(record)

    assert read_exported(page) == record
    assert page.endswith(record.memory.content.encode())


@given(records())
def test_the_header_is_yaml_that_others_read_alike(record: MemoryRecord) -> None:
    header = write_memory(record).split(b"\n---\n", 1)[0]

    read: dict[str, Any] = yaml.safe_load(header.decode())

    assert read["id"] == record.memory.id
    assert tuple(read["tags"]) == record.memory.tags
    assert read["summary"] == record.memory.summary
    assert [each["content"] for each in read["versions"]] == [
        each.memory.content for each in record.versions
    ]


@given(st.builds(Episode, id=nanoids.map(lambda text: EpisodeId(f"ep_{text}")), project=labels,
    description=any_text, started_at=moments, ended_at=st.none() | moments,
    summary=st.none() | any_text, memories=st.just(0)))  # fmt: skip
def test_an_episode_survives(episode: Episode) -> None:
    assert read_exported(write_episode(episode)) == episode


def test_every_id_is_checked_against_its_pattern() -> None:
    names = {name for kind in (Memory, Relation, Episode) for name in kind.__struct_fields__}

    assert {name for name in names if name.endswith("id")} == ID_PREFIXES.keys()


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b'kind: "memory"', b'kind: "other"', "kind"),
        (b"engram: 1", b"engram: 2", "engram"),
        (b"importance: 2", b"importance: 5", "importance"),
        (b"importance: 2", b'importance: "2"', "importance"),
        (b'project: "default"', b'project: "a\\u202eb"', "project"),
        (b"immutable: false", b"immutable: 0", "immutable"),
        (b"content_bytes: 9", b"content_bytes: 8", "content_bytes"),
        (b"\0b\n", b"\0c\n", "content_hash"),
        (b"\0b\n", b"\0b\n\n", "content_bytes"),
        (b'id: "mem_', b'id: "mem', "id"),
        (b'id: "mem_a', b'id: "mem_/', "id"),
        (b"version: 1", b"version: 0", "version"),
        (b"summary: null\n", b"", "summary"),
        (b"summary: null", b"sumary: null", "sumary"),
        (b"summary: null", b"summary: !!python", "summary"),
        (b"version: 1", b"version: " + b"[" * 5_000, "version"),
        (b"version: 1", b"version: " + b"1" * 4_301, "version"),
        (b"2026-05-08T00:00:00.000000Z", b"yesterday", "created_at"),
        (b"2026-05-08T00:00:00.000000Z", b"2026-05-08", "created_at"),
        (b"2026-05-08T00:00:00.000000Z", b"2026-05-08T00:00:00", "created_at"),
        (b"2026-05-08T00:00:00.000000Z", b"0001-01-01T00:00:00+01:00", "created_at"),
        (b"2026-05-08T00:00:00.000000Z", b"9999-12-31T23:59:59-01:00", "created_at"),
        (b"versions: []", b"versions: [1]", None),
        (b'versions: []', b'versions: [{"change": 1}]', "change"),
        (b"relations: []", b"relations: {}", None),
        (b"---\nengram", b"engram", None),
        (b"\xff", b"", None),
    ],
)  # fmt: skip
def test_a_changed_file_is_refused_with_the_field(
    old: bytes, new: bytes, field: str | None
) -> None:
    page = write_memory(A_RECORD)
    changed = page.replace(old, new, 1) if old in page else page + old

    with pytest.raises(InvalidRequestError) as caught:
        read_exported(changed)
    assert caught.value.field == field or field is None


def test_relations_and_versions_of_other_memories_are_refused() -> None:
    other = replace(A_RECORD.memory, id=MemoryId("mem_" + "b" * 21))
    version = MemoryVersion(memory=other, change="update", ended_at=other.created_at, actor="local")

    with pytest.raises(InvalidRequestError):
        read_exported(write_memory(replace(A_RECORD, versions=(version,))))


def test_a_memory_whose_text_would_be_lost_is_refused() -> None:
    forgotten = replace(A_RECORD.memory, is_searched=False)

    with pytest.raises(InvalidRequestError) as caught:
        read_exported(write_memory(MemoryRecord(memory=forgotten)))
    assert caught.value.field == "versions"


def test_a_memory_that_was_forgotten_before_it_began_survives() -> None:
    early, late = datetime(2026, 5, 9, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
    before = replace(A_RECORD.memory, valid_from=late)
    forgotten = replace(before, valid_to=early, version=2, is_searched=False)
    version = MemoryVersion(memory=before, change="invalidate", ended_at=early, actor="local")
    record = MemoryRecord(memory=forgotten, versions=(version,))

    assert read_exported(write_memory(record)) == record


def test_only_our_own_files_count_as_pages() -> None:
    assert is_exported(write_memory(A_RECORD))
    assert not is_exported(b"---\ntitle: x\n---\nhello")
    assert not is_exported(b"# engram: 1")
