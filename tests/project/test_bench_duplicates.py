"""The table of thresholds counts what it says it counts."""

from __future__ import annotations

from bench.duplicates import Judged, table_of
from engram.text.near_duplicates import Similarity


def judge(
    letters: float,
    whole: float | None = None,
    *,
    is_duplicate: bool = False,
    is_candidate: bool = False,
) -> Judged:
    return Judged(
        is_duplicate=is_duplicate,
        is_candidate=is_candidate,
        letters=Similarity(letters),
        whole=Similarity(letters if whole is None else whole),
    )


def test_precision_and_recall_are_of_what_a_rule_merges() -> None:
    judged = [
        judge(0.95, is_duplicate=True, is_candidate=True),
        judge(0.9, is_duplicate=True),
        judge(0.86, 0.0, is_candidate=True),
        judge(0.2, is_duplicate=True),
    ]

    rows = {row.rule: row for row in table_of(judged)}

    confirmed = rows["J >= 0.85 and 0.7 J + 0.3 cosine >= 0.80"]
    assert (confirmed.merged, confirmed.precision, confirmed.recall) == (3, 2 / 3, 2 / 3)
    assert rows["the same, and equal numbers and names"].precision == 1.0
    assert rows["the same, among the candidates of MinHash"].merged == 1
    assert table_of([judge(0.1, is_duplicate=True)])[0].precision is None
