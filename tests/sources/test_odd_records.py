"""Whatever stands in the place of a value, a reader goes on with the next record."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from copy import copy
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engram.sources.batches import Batches, Choices
from engram.sources.importing import find_files
from engram.sources.registry import SOURCES
from engram.sources.values import SourceError, SourceFile, Tally
from tests.fakes import FakeClock
from tests.sources.imports import POLICY
from tests.sources.samples import SAMPLES
from tests.sources.test_claude import SESSION
from tests.sources.test_memory_stores import SAMPLES as MEMORIES

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 2.5, 10**30, "", "x", "\x00", "\ud800", [], [[]], [None, 1], {}, {"a": []}]
)

Edit = Callable[[Any], Any]


def _paths(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every value in a document."""
    yield path
    if isinstance(value, dict):
        for key, each in cast("dict[str, object]", value).items():
            yield from _paths(each, (*path, key))
    elif isinstance(value, list):
        for place, each in enumerate(cast("list[object]", value)):
            yield from _paths(each, (*path, place))


def _changed(value: Any, path: tuple[Any, ...], odd: object) -> Any:
    if not path:
        return odd
    first, *rest = path
    copied: Any = copy(value)
    copied[first] = _changed(value[first], tuple(rest), odd)
    return copied


def _edit(data: st.DataObject) -> Edit:
    def edit(value: Any) -> Any:
        path = data.draw(st.sampled_from(list(_paths(value))))
        return _changed(value, path, data.draw(ODD))

    return edit


def _rewrite(path: Path, edit: Edit, *, which: int) -> None:
    """Change one value of a file, whatever it is made of."""
    if path.suffix == ".jsonl":
        lines = path.read_text().splitlines()
        place = which % len(lines)
        lines[place] = json.dumps(edit(json.loads(lines[place])))
        path.write_text("\n".join(lines) + "\n")
    elif path.suffix == ".json":
        path.write_text(json.dumps(edit(json.loads(path.read_text()))))
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            entries = {name: json.loads(archive.read(name)) for name in archive.namelist()}
        name = sorted(entries)[which % len(entries)]
        entries[name] = edit(entries[name])
        with zipfile.ZipFile(path, "w") as archive:
            for each, value in entries.items():
                archive.writestr(each, json.dumps(value))
    elif path.suffix in (".db", ".vscdb", ".sqlite3"):
        _rewrite_row(path, edit, which=which)


def _rewrite_row(path: Path, edit: Edit, *, which: int) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        listed = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
        tables = [name for (name,) in listed]
        table = tables[which % len(tables)]
        columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        column = columns[which % len(columns)]
        (value,) = database.execute(f"SELECT {column} FROM {table} LIMIT 1").fetchone()  # noqa: S608
        try:
            odd = json.dumps(edit(json.loads(value)))
        except (TypeError, ValueError):
            odd = edit(value)
        if isinstance(odd, list | dict | bool) or odd == 10**30:
            odd = json.dumps(odd)
        if isinstance(odd, str):
            odd = odd.encode("utf-8", "replace").decode()
        one = f"rowid = (SELECT min(rowid) FROM {table})"  # noqa: S608
        database.execute(f"UPDATE OR IGNORE {table} SET {column} = ? WHERE {one}", (odd,))  # noqa: S608


def _write_claude(place: Path) -> None:
    (place / "s1.jsonl").write_text("".join(json.dumps(each) + "\n" for each in SESSION))


WRITERS: dict[str, Callable[[Path], object]] = {
    "claude": _write_claude,
    **{name: sample.write for name, sample in SAMPLES.items()},
    **{name: sample.write for name, sample in MEMORIES.items()},
}


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), which=st.integers(0, 1_000))
def test_a_value_of_another_kind_costs_its_record_at_most(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject, which: int
) -> None:
    place = tmp_path_factory.mktemp("odd")
    WRITERS[name](place)
    source = SOURCES[name.partition(",")[0]]
    paths = find_files(source, [place])
    _rewrite(paths[which % len(paths)], _edit(data), which=which)

    for path in paths:
        choices = Choices(policy=POLICY, is_dry_run=True)
        now = FakeClock().now()
        batches = Batches(source, SourceFile(path=path), Tally(), choices, now=now)
        try:
            assert all(batches)
        except SourceError:
            # A file that is one value may be none of its kind any more; one of lines always is.
            assert path.suffix != ".jsonl"
