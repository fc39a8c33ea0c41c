"""Tables of numbers by key return what was added, and never anything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.model.row_keys import KINDS, conversation_of, message_key, record_number
from engram.storage.postings import number_tables
from engram.storage.postings.number_tables import NumberTable, SlotTable

records = st.builds(record_number, st.sampled_from(KINDS), st.integers(1, 4))
sequences = st.integers(0, 40) | st.integers(65_500, 65_560) | st.just(2**24 - 1)
keys = st.builds(message_key, records, sequences)
batches = st.lists(st.lists(keys, max_size=12), min_size=1, max_size=8)


def row(key: int) -> list[int]:
    """Return the numbers that a key has in these tests."""
    return [key % 1_009, key % 31]


def add(table: NumberTable | SlotTable, batch: list[int]) -> None:
    table.add(np.array(batch, dtype=np.int64), np.array([*map(row, batch)]).reshape(-1, 2))


def look_up(table: NumberTable | SlotTable, wanted: list[int]) -> list[list[int]]:
    return table.look_up(np.array(wanted, dtype=np.int64)).tolist()


@pytest.mark.parametrize("kind", [NumberTable, SlotTable])
@given(batches=batches, others=st.lists(keys, max_size=12))
def test_a_table_has_what_was_added(
    kind: type[NumberTable | SlotTable], batches: list[list[int]], others: list[int]
) -> None:
    table, present = kind(2), set[int]()
    for batch in batches:
        add(table, [key for key in dict.fromkeys(batch) if key not in present])
        present.update(batch)

        asked = [*batch, *others, *sorted(present)]

        assert look_up(table, asked) == [row(key) if key in present else [-1, -1] for key in asked]


@given(batches=batches)
def test_slots_beyond_their_bound_make_room_for_the_latest(batches: list[list[int]]) -> None:
    table, present = SlotTable(2), set[int]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(number_tables, "LENGTH_SLOTS_KEPT", 200)
        for batch in batches:
            add(table, [*dict.fromkeys(batch)])
            present.update(batch)

            assert look_up(table, batch) == [*map(row, batch)]
            found = look_up(table, sorted(present))
            assert all(
                numbers in (row(key), [-1, -1])
                for key, numbers in zip(sorted(present), found, strict=True)
            )


@given(batches=batches, left=st.sets(records, max_size=3))
def test_a_table_without_some_conversations_has_all_others(
    batches: list[list[int]], left: set[int]
) -> None:
    table, present = NumberTable(2), sorted({key for batch in batches for key in batch})
    add(table, present)

    others = table.without(left)

    assert look_up(table, present) == [*map(row, present)]
    assert look_up(others, present) == [
        [-1, -1] if conversation_of(key) in left else row(key) for key in present
    ]
