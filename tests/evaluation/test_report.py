"""The figures of a set as a whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engram_eval.report import Foreign, GroupReport, Measurement, nearest_rank, report_on

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
        "when": GroupReport(questions=1, quality={"recall": 0.0}),
        "who": GroupReport(questions=2, quality={"recall": 75.0}),
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


def sent(tokens: int, overhead: float | None = None, **labels: str) -> Measurement:
    return Measurement(
        category="any",
        figures={"delivered": float(tokens > 1)},
        tokens=0,
        latency_ms=1,
        sent_tokens=tokens,
        overhead=overhead,
        labels=labels,
    )


def test_costs_are_the_mean_tokens_and_the_median_overhead_of_answers_that_have_text() -> None:
    answers = [sent(100, 1.2), sent(200, 9.0), sent(300, 1.4), sent(0)]
    foreign = [Foreign(tokens=40, is_silent=True), Foreign(tokens=900, is_silent=False)]

    report = report_on("some.dev", answers, foreign=foreign, messages=1, seconds=1.0)

    assert report.costs == {"tokens": 150, "overhead": 1.4, "foreign_tokens": 470}
    assert report.quality["silent"] == 50
    assert report.figures == {**report.quality, **report.costs}


def test_figures_that_nothing_was_measured_for_are_left_out() -> None:
    report = report_on("some.dev", [sent(0)], messages=1, seconds=1.0)

    assert report.costs == {"tokens": 0}
    assert "silent" not in report.quality


def test_labels_are_reported_apart_in_the_order_of_their_numbers() -> None:
    answers = [
        sent(1, size="10 KB"),
        sent(5, size="9 KB"),
        sent(5, size="10 KB"),
        sent(1, form="log"),
    ]

    labels = report_on("some.dev", answers, messages=1, seconds=1.0).labels

    assert list(labels) == ["size", "form"]
    assert list(labels["size"]) == ["?", "9 KB", "10 KB"]
    assert labels["size"]["10 KB"] == GroupReport(questions=2, quality={"delivered": 50.0})


def test_a_curve_is_the_mean_of_those_of_the_answers_that_have_one() -> None:
    answers = [
        Measurement(category="any", figures={}, tokens=0, latency_ms=1, curves=curves)
        for curves in ({"answer": (0.0, 1.0)}, {"answer": (0.5, 1.0)}, {})
    ]

    assert report_on("some.dev", answers, messages=1, seconds=1.0).curves == {"answer": [25, 100]}
