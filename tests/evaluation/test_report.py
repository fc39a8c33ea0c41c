"""The figures of a set as a whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram_eval.report import CategoryReport, Measurement, nearest_rank, report_on

latencies = st.lists(st.floats(0, 1e6), min_size=1)


def measured(category: str = "any", *, latency_ms: float = 1.0, **figures: float) -> Measurement:
    return Measurement(category=category, figures=figures, tokens=100, latency_ms=latency_ms)


def test_a_figure_is_the_mean_in_per_cent_over_the_answers_that_have_it() -> None:
    report = report_on(
        "some.dev",
        [measured(recall=1.0), measured(recall=0.0, mrr=0.5), measured(recall=1 / 3)],
        messages=30,
        seconds=2.0,
    )

    assert report.quality == {"recall": 44.44, "mrr": 50.0}
    assert (report.questions, report.messages, report.messages_per_s) == (3, 30, 15.0)
    assert report.tokens == 100


def test_categories_are_reported_apart() -> None:
    report = report_on(
        "some.dev",
        [measured("who", recall=1.0), measured("when", recall=0.0), measured("who", recall=0.5)],
        messages=1,
        seconds=1.0,
    )

    assert report.categories == {
        "when": CategoryReport(questions=1, quality={"recall": 0.0}),
        "who": CategoryReport(questions=2, quality={"recall": 75.0}),
    }


def test_nothing_stored_has_no_speed() -> None:
    assert report_on("some.dev", [measured()], messages=0, seconds=0.5).messages_per_s is None


def test_latencies_are_the_median_and_the_nearest_rank() -> None:
    answers = [measured(latency_ms=number) for number in range(1, 101)]

    report = report_on("some.dev", answers, messages=1, seconds=1.0)

    assert (report.latency_p50_ms, report.latency_p95_ms) == (50.5, 95)


@given(latencies, st.floats(0, 1))
def test_at_least_the_share_of_values_does_not_exceed_its_rank(
    values: list[float], share: float
) -> None:
    value = nearest_rank(values, share=share)

    assert value in values
    assert sum(other <= value for other in values) >= share * len(values)
