"""Readers of bytes answer any bytes with a right value or a clear error, within bounds."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.targets import CORPUS, TARGETS, mutated
from tests.promises import promise

every_target = pytest.mark.parametrize("name", TARGETS)


@promise("clear", "fair")
@every_target
def test_every_kept_input_is_read_or_refused(name: str) -> None:
    seeds = TARGETS[name].seeds()

    assert seeds
    for data in seeds:
        TARGETS[name].hold(data)


@promise("clear", "fair")
@every_target
@given(random=st.randoms(use_true_random=False))
def test_a_changed_input_is_read_or_refused(name: str, random: Random) -> None:
    target = TARGETS[name]

    target.hold(mutated(random, target.seeds()))


@promise("clear", "fair")
@every_target
@given(data=st.binary(max_size=2_000))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    TARGETS[name].hold(data)


def test_no_input_is_kept_for_a_reader_that_is_not_there() -> None:
    assert set(TARGETS) == {path.name for path in CORPUS.iterdir()}
