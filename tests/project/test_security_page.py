"""Every claim of the page on security is held by a test that exists."""

from __future__ import annotations

import re

from tests.project.named_tests import ROOT, TEST, missing_tests

PAGE = ROOT / "docs" / "security.md"
SECTION = "## What Engram promises"


def claims() -> list[tuple[str, str]]:
    """Return each claim of the page with what is said to prove it."""
    _, _, promises = PAGE.read_text().partition(SECTION)
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", promises, re.MULTILINE)
    return [(claim, proof) for claim, proof in rows if claim not in ("claim", "---")]


def test_every_claim_names_its_test() -> None:
    assert len(claims()) > 30
    assert [] == [claim for claim, proof in claims() if not TEST.search(proof)]


def test_every_test_that_the_page_names_exists() -> None:
    assert [] == missing_tests(PAGE.read_text())
