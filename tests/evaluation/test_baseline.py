"""The comparison with what was reached before."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.errors import InvalidRequestError
from engram_eval.report import Baseline, compare, read_baseline, write_baseline

per_cent = st.integers(0, 10_000).map(lambda hundredths: hundredths / 100)
figures = st.dictionaries(st.text(max_size=8), per_cent, max_size=5)


def regressions(now: dict[str, float], before: dict[str, float]) -> list[str]:
    return [change.figure for change in compare(now, before) if change.is_regression]


def test_a_figure_more_than_a_point_below_its_baseline_is_a_regression() -> None:
    before = {"evidence@500": 80.1, "evidence@1000": 90.0, "message_mrr": 50.0}

    assert regressions(
        {"evidence@500": 79.1, "evidence@1000": 88.99, "message_mrr": 60.0}, before
    ) == ["evidence@1000"]


def test_a_figure_that_is_gone_is_a_regression() -> None:
    [change] = compare({}, {"message_mrr": 50.0})

    assert change.is_regression
    assert change.points is None


def test_a_figure_without_a_baseline_is_not_compared() -> None:
    assert compare({"message_mrr": 50.0}, {}) == ()


def test_a_cost_may_rise_by_a_twentieth_and_fall_by_anything() -> None:
    before = {"tokens": 800.0, "overhead": 1.2, "foreign_tokens": 60.0}

    assert regressions({"tokens": 840.0, "overhead": 1.26, "foreign_tokens": 1.0}, before) == []
    assert regressions({"tokens": 841.0, "overhead": 1.27, "foreign_tokens": 64.0}, before) == [
        *before
    ]


def test_more_silence_is_better_and_more_emptied_answers_are_worse() -> None:
    before = {"silent": 90.0, "emptied": 2.0}

    assert regressions({"silent": 99.0, "emptied": 0.0}, before) == []
    assert regressions({"silent": 88.9, "emptied": 3.1}, before) == ["silent", "emptied"]


@given(per_cent, per_cent)
def test_exactly_falls_of_more_than_a_hundred_hundredths_are_regressions(
    now: float, before: float
) -> None:
    fallen = round(100 * before) - round(100 * now)

    assert bool(regressions({"x": now}, {"x": before})) is (fallen > 100)


@given(st.dictionaries(st.text(max_size=8), figures, max_size=4))
def test_a_baseline_is_read_as_it_was_written(tmp_path: Path, baseline: Baseline) -> None:
    path = tmp_path / "baseline.json"

    write_baseline(path, baseline)

    assert read_baseline(path) == baseline


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"a": 1}', '{"a": {"b": "1"}}', '{"a": {"b": true}}']
)
def test_a_file_that_is_no_baseline_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(content)

    with pytest.raises(InvalidRequestError) as caught:
        read_baseline(path)

    assert str(caught.value).startswith(f"{path}: ")


def test_a_baseline_that_cannot_be_reached_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "baseline.json"

    for attempt in (lambda: read_baseline(path), lambda: write_baseline(path, {})):
        with pytest.raises(InvalidRequestError) as caught:
            attempt()
        assert str(path) in str(caught.value)
