"""Promises and tests fit each other, and the size of a proof is what its tests say."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.promises import NAMES, promise
from tools.promises import PromiseError, Proof, promises_text, proofs_of

PROPERTY = '''
from tests.promises import promise
pytestmark = [promise("verbatim"), pytest.mark.skipif(False)]
KILLS = 20

@promise("durable", "apart", kills=2 * KILLS)
async def test_a(): ...

@promise("findable")
@settings(max_examples=7)
@given(...)
def test_b(): ...

def test_c(): ...

TestReaders = Readers.TestCase
'''  # fmt: skip


def with_tests(root: Path, *names: str) -> Path:
    """Return a directory in which one test proves each of the promises."""
    (root / "tests").mkdir()
    lines = (f'@promise("{name}")\ndef test_{at}(): ...\n' for at, name in enumerate(names))
    (root / "tests" / "test_all.py").write_text("\n".join(lines))
    return root


def test_a_mark_of_a_module_a_test_and_a_state_machine_is_read_with_its_sizes() -> None:
    proofs = list(proofs_of(ast.parse(PROPERTY), "t.py"))

    both = frozenset({"verbatim", "durable", "apart"})
    assert proofs == [
        Proof("t.py", "test_a", both, {"kills": 40}),
        Proof("t.py", "test_b", frozenset({"verbatim", "findable"}), {"examples": 7}),
        Proof("t.py", "test_c", frozenset({"verbatim"}), {}),
        Proof("t.py", "TestReaders", frozenset({"verbatim"}), {"examples": 7}),
    ]


def test_every_promise_is_shown_with_its_tests(tmp_path: Path) -> None:
    text = promises_text(with_tests(tmp_path, *NAMES))

    assert all(f"### {name}\n" in text for name in NAMES)
    assert text.count("Proof: 1 test.") == len(NAMES)


def test_a_promise_without_a_test_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PromiseError, match="have no test: durable"):
        promises_text(with_tests(tmp_path, *(NAMES - {"durable"})))


def test_a_mark_of_an_unknown_promise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PromiseError, match="do not exist: eternal"):
        promises_text(with_tests(tmp_path, *NAMES, "eternal"))


def test_a_mark_of_an_unknown_promise_or_of_none_fails_its_module() -> None:
    for names in (("eternal",), ()):
        with pytest.raises(ValueError, match="no such promise"):
            promise(*names)


@pytest.mark.parametrize("mark", ["promise(NAME)", 'promise("apart", kills=count())'])
def test_a_mark_that_cannot_be_read_is_refused(mark: str) -> None:
    with pytest.raises(PromiseError):
        list(proofs_of(ast.parse(f"@{mark}\ndef test_a(): ..."), "t.py"))
