"""Checksums: equal for equal rows in any order, different for any others."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from engram.transfer.tables import Checksum

values = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=20)
    | st.binary(max_size=20)
)
rows = st.lists(values, max_size=4).map(tuple)


@given(st.lists(rows, max_size=8), st.randoms(), st.integers(0, 8))
def test_order_and_pages_do_not_matter(
    found: list[tuple[object, ...]], chance: Random, cut: int
) -> None:
    shuffled = chance.sample(found, len(found))

    whole = Checksum().including(found)

    assert whole == Checksum().including(shuffled[:cut]).including(shuffled[cut:])
    assert whole.rows == len(found)


@given(st.lists(rows, max_size=4), st.lists(rows, max_size=4))
def test_other_rows_have_another_checksum(
    one: list[tuple[object, ...]], other: list[tuple[object, ...]]
) -> None:
    assume(Counter(map(repr, one)) != Counter(map(repr, other)))

    assert Checksum().including(one) != Checksum().including(other)


def test_values_of_different_kinds_are_different() -> None:
    alike = ("1", b"1", 1, 1.0, None, "", b"", 0, 0.0, -0.0)
    checksums = {Checksum().including([(value,)]) for value in alike}

    assert len(checksums) == len(alike)


def test_values_do_not_run_into_each_other() -> None:
    split = [[("ab", "c")], [("a", "bc")], [("abc",)], [("abc", "")], [("ab",), ("c",)]]

    assert len({Checksum().including(rows) for rows in split}) == len(split)
