"""The model of what sizes need follows from its costs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.model import Costs, Line, Machine, Mix, Model, limit_table, line_through, plan_table

COSTS = Costs(
    message_bytes=1_000,
    organization_bytes=5_000,
    vector_bytes=400,
    process_mb=300,
    storing_ms=1,
    storing_server_ms=0.5,
    embedding_ms=10,
    search_ms=Line(5, 20),
    search_server_ms=Line(1, 2),
)
MODEL = Model(COSTS)


def test_a_line_meets_both_points() -> None:
    line = line_through((10_000, 6.0), (110_000, 8.0))

    assert line.at(10_000) == pytest.approx(6.0)
    assert line.at(110_000) == pytest.approx(8.0)


def test_disk_is_that_of_messages_and_organisations() -> None:
    plan = MODEL.plan(10**9)

    assert plan.organizations == 10**6
    assert plan.disk_gb == pytest.approx(1_000 + 5)


def test_homes_are_as_many_as_disks_are_filled() -> None:
    machine = Machine(disk_gb=100)

    assert Model(COSTS, machine=machine).plan(10**9).homes == 11


def test_a_busier_mix_needs_more_processes() -> None:
    busy = Model(COSTS, mix=Mix(searches_per_message=100))

    assert busy.plan(10**8).processes > MODEL.plan(10**8).processes


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_more_messages_never_need_less(one: int, other: int) -> None:
    few, many = MODEL.plan(min(one, other)), MODEL.plan(max(one, other))

    assert few.disk_gb <= many.disk_gb
    assert few.processes <= many.processes
    assert few.homes <= many.homes
    assert few.process_gb <= many.process_gb


def test_a_limit_is_where_the_plan_needs_one_more() -> None:
    full = {name: messages for messages, name, _ in MODEL.limits()}

    disk = full["the disk of one server (500 GB)"]
    assert MODEL.plan(int(0.99 * disk)).homes == 1
    assert MODEL.plan(int(1.01 * disk)).homes == 2
    process = full["one process at the peak (50% of a core)"]
    assert MODEL.plan(int(0.99 * process)).processes == 1
    assert MODEL.plan(int(1.01 * process)).processes == 2


def test_the_first_limit_comes_first() -> None:
    reached = [messages for messages, _, _ in MODEL.limits()]

    assert reached == sorted(reached)


def test_tables_have_a_row_for_each_size_and_limit() -> None:
    assert len([*plan_table(MODEL)]) == 2 + 6
    assert len([*limit_table(MODEL)]) == 2 + len(MODEL.limits())
