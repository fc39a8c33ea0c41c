"""What is taken from the report of `score.py`."""

from __future__ import annotations

from bench.score import quality


def test_speed_is_not_compared_with_the_baseline() -> None:
    report = {"search_p50_ms": 3.1, "ALL": {"n": 10, "evidence@500": 0.8123, "message_mrr": 0.5}}

    assert quality(report) == {"evidence@500": 81.23, "message_mrr": 50.0}
