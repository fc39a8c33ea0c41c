"""Every source: its files are imported as they were written, once, and nothing of them is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.sources.registry import SOURCES
from tests.sources.imports import Importer
from tests.sources.samples import SAMPLES, Sample

samples = pytest.mark.parametrize(("name", "sample"), SAMPLES.items(), ids=list(SAMPLES))


@samples
async def test_files_are_imported_as_they_were_written_and_once(
    importer: Importer, tmp_path: Path, name: str, sample: Sample
) -> None:
    source, place = name.partition(",")[0], tmp_path / "files"
    place.mkdir()
    sample.write(place)
    files = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}

    first = await importer(source, place)
    before = await importer.everything()
    unchanged = await importer(source, place)
    again = await importer(source, place, reread=True)

    assert sample.said == await importer.said()
    assert sample.skipped == first.tally.skipped
    assert ({}, {}) == (first.tally.drift, first.failed)
    stored = sum(map(len, sample.said))
    assert (stored, 0) == (first.stored, first.known)
    assert unchanged.unchanged == unchanged.files
    assert (0, stored) == (again.stored, again.known)
    assert before == await importer.everything()
    assert files == {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}


@samples
async def test_sessions_say_where_they_come_from(
    importer: Importer, tmp_path: Path, name: str, sample: Sample
) -> None:
    source = name.partition(",")[0]
    sample.write(tmp_path)

    await importer(source, tmp_path)

    for conversation in await importer.conversations():
        assert source == conversation.agent_id
        assert source in conversation.tags
        assert source == conversation.metadata["source"]
        if sample.directory is not None:
            assert sample.directory == conversation.metadata["directory"]
            assert sample.directory == conversation.project


def test_every_source_of_sessions_has_a_sample() -> None:
    of_memories = {
        "memory-server",
        "mem0",
        "claude-mem",
        "memory-service",
        "mempalace",
        "basic-memory",
    }
    sampled = {name.partition(",")[0] for name in SAMPLES} | {"claude"}
    assert set(SOURCES) - of_memories == sampled


def test_every_source_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "importing.md").read_text(encoding="utf-8")

    assert [name for name in SOURCES if f"| `{name}` |" not in page] == []
