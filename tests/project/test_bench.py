"""What benchmarks print and publish; measuring itself is left to `make bench`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.__main__ import BENCHMARKS
from bench.chart import draw_latencies
from bench.figures import Figure, allowed
from bench.meaning import Latency
from bench.notes import measure as measure_notes
from bench.planting import plant_store
from bench.publish import BEGIN, END, PAGE, number, table_of, with_figures
from bench.timing import percentile
from engram.model.search import SearchRequest
from engram.model.value import replace
from engram.settings import Settings
from engram.wiring import open_service

FIGURE = Figure(
    name="search",
    value=3.0,
    unit="CPU ms",
    floor=2.0,
    floor_name="bare scan",
    direction="at most",
    bound=1.5,
)


def test_a_figure_at_its_bound_is_reached() -> None:
    assert FIGURE.is_reached
    assert not replace(FIGURE, value=3.1).is_reached
    assert replace(FIGURE, value=3.1, direction="at least").is_reached
    assert replace(FIGURE, value=99, bound=None).is_reached


def test_a_limit_of_another_size_is_shown_and_not_enforced() -> None:
    held = allowed("memory", 500, unit="MB", at_most=450)
    shown = allowed("memory", 500, unit="MB", at_most=450, is_bound=False)

    assert not held.is_reached
    assert shown.is_reached
    assert shown.floor == 450


def test_the_page_gets_the_figures_between_its_marks() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"

    renewed = with_figures(page, {"search": [FIGURE]})

    assert renewed.startswith(f"before\n{BEGIN}\n")
    assert renewed.endswith(f"{END}\nafter\n")
    assert "old" not in renewed
    assert "| search | 3 CPU ms | bare scan: 2 | 1.50 | at most 1.5 |" in renewed


def test_the_page_can_be_renewed_again_and_again() -> None:
    once = with_figures(f"{BEGIN}{END}", {"search": [FIGURE]})

    assert with_figures(once, {"search": [FIGURE]}) == once


def test_a_missed_bound_is_not_hidden() -> None:
    assert "**missed**" in table_of("search", [replace(FIGURE, value=9)])


@pytest.mark.parametrize(
    ("value", "shown"), [(0.2134, "0.213"), (12.34, "12.3"), (99.96, "100"), (12345.6, "12,346")]
)
def test_numbers_have_the_digits_that_mean_something(value: float, shown: str) -> None:
    assert number(value) == shown


def test_every_benchmark_is_on_the_page() -> None:
    page = PAGE.read_text()

    assert [] == [name for name in BENCHMARKS if f"`make bench ARGS={name}`" not in page]


@given(st.lists(st.floats(allow_nan=False), min_size=1), st.floats(0, 1))
def test_a_percentile_is_one_of_the_values(values: list[float], share: float) -> None:
    found = percentile(values, share)

    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)


def test_of_twenty_values_only_one_is_past_the_ninety_fifth_percentile() -> None:
    assert percentile(range(20), 0.95) == 18
    assert percentile(range(20), 0.5) == 9


def test_the_chart_is_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "latency.png"

    draw_latencies([Latency(600, 3, 5, 2.5), Latency(10_000, 9, 20, 8)], path)

    assert path.read_bytes().startswith(b"\x89PNG")


def test_notes_are_measured_beside_the_same_texts_as_messages() -> None:
    figures = measure_notes(quick=True)

    assert [figure.unit for figure in figures] == ["CPU ms"] * 6 + ["bytes"] + ["%"] * 4
    assert all(figure.value > 0 and figure.floor > 0 for figure in figures)


async def test_a_planted_store_has_a_vector_for_every_message(tmp_path: Path) -> None:
    planted = await plant_store(tmp_path, messages=150)

    async with open_service(Settings(home=tmp_path)) as service:
        status = await service.account.status(planted.principal)
        answer = await service.search.search(
            planted.principal, SearchRequest(query="files", profile="vectors", explain=True)
        )
    with closing(sqlite3.connect(planted.path)) as connection:
        (without,) = connection.execute(
            "SELECT count(*) FROM message WHERE key NOT IN (SELECT key FROM vector)"
        ).fetchone()

    assert status.counters.pending == without == 0
    assert status.counters.vectors >= status.counters.messages == 150
    assert answer.degraded == ()
    assert answer.results
