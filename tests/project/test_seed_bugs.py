"""The page on the faults of the seeds names every one of them, and tests that exist."""

from __future__ import annotations

import re

from tests.project.named_tests import ROOT, TEST, missing_tests

PAGE = ROOT / "docs" / "seed-bugs.md"
LINK = re.compile(r"\]\(([^)]+)\)")


def numbered(section: str, last: int) -> list[str]:
    return [f"{section}{number}" for number in range(1, last + 1)]


ITEMS = [
    *(f"1.{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13)),
    *numbered("B", 10),
    *numbered("3.5.", 10),
    *numbered("3.6.", 7),
    *numbered("3.8.", 5),
    *numbered("3.7.", 15),
    *numbered("3.4.", 2),
    *numbered("3.9.", 8),
    *numbered("4.1.", 14),
    *numbered("4.2.", 15),
]
"""Every fault in the notes on the seeds, in the order of the page."""


def rows() -> list[tuple[str, str, str]]:
    """Return item, fault and proof of each row of the page."""
    text = PAGE.read_text()
    return re.findall(r"^\| ((?:B|\d\.)[\d.]+) \| (.+?) \| (.+) \|$", text, re.MULTILINE)


def test_every_fault_of_the_seeds_has_its_row() -> None:
    assert [item for item, _, _ in rows()] == ITEMS


def test_every_row_names_a_test_or_a_page() -> None:
    assert [] == [
        item for item, _, proof in rows() if not TEST.search(proof) and not LINK.search(proof)
    ]


def test_every_test_that_is_named_exists() -> None:
    proofs = "".join(proof for _, _, proof in rows())

    assert TEST.search(proofs)
    assert [] == missing_tests(proofs)


def test_every_page_that_is_named_exists() -> None:
    named = [link for _, _, proof in rows() for link in LINK.findall(proof)]

    assert [] == [link for link in named if not (PAGE.parent / link).is_file()]
