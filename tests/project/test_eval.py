"""The comparison of retrieval quality with its baseline."""

from __future__ import annotations

from bench.eval import quality, regressions


def test_a_figure_more_than_a_point_below_its_baseline_is_a_regression() -> None:
    baseline = {"evidence@500": 80.0, "evidence@1000": 90.0}

    lines = regressions({"evidence@500": 79.1, "evidence@1000": 88.9}, baseline)

    assert lines == ["evidence@1000: 88.90, baseline 90.00"]


def test_a_figure_that_is_missing_is_a_regression() -> None:
    assert len(regressions({}, {"message_mrr": 50.0})) == 1


def test_speed_is_not_compared_with_the_baseline() -> None:
    report = {"search_p50_ms": 3.1, "ALL": {"n": 10, "evidence@500": 0.8123, "message_mrr": 0.5}}

    assert quality(report) == {"evidence@500": 81.23, "message_mrr": 50.0}
