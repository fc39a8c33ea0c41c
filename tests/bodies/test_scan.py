"""The shape of JSON text, checked before anything is built of it."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram import limits
from engram.bodies.json_text import (
    SLICE_BYTES,
    check_shape,
    find_long_strings,
    is_light,
)
from engram.errors import LimitExceededError
from tests.promises import promise

LONG = limits.JSON_LONG_STRING_BYTES + 1
TEXTS = st.text() | st.just('["{\\",' * LONG)
SCALARS = st.none() | st.booleans() | st.integers() | TEXTS
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def strings_of(value: Any) -> list[str]:
    """Return the strings of a JSON value, names included, in their order."""
    match value:
        case str():
            return [value]
        case list():
            return [text for item in cast("list[Any]", value) for text in strings_of(item)]
        case dict():
            items = cast("dict[str, Any]", value).items()
            return [text for name, item in items for text in (name, *strings_of(item))]
        case _:
            return []


@given(value=VALUES, is_ascii=st.booleans())
def test_the_long_strings_of_any_json_are_found(*, value: Any, is_ascii: bool) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii).encode()

    spans = find_long_strings(data)

    found = [json.loads(data[start - 1 : end + 1]) for start, end in spans]
    spelled = {text: json.dumps(text, ensure_ascii=is_ascii).encode() for text in strings_of(value)}
    assert found == [text for text in strings_of(value) if len(spelled[text]) - 2 >= LONG]


@given(st.binary(max_size=300) | st.text('[]{}",:\\u0a', max_size=300).map(str.encode))
def test_a_scan_of_anything_ends(data: bytes) -> None:
    check_shape(data)

    assert all(0 <= start < end < len(data) for start, end in find_long_strings(data))


@pytest.mark.parametrize("plain", [0, 1, 5, 6, 7])
@pytest.mark.parametrize("unit", [b"\\u0022", b"\\\\", b'\\"', b"x", "é".encode()])
def test_a_string_longer_than_a_slice_ends_at_its_quote(unit: bytes, plain: int) -> None:
    text = b"x" * plain + unit * (SLICE_BYTES // len(unit) + 100)

    spans = find_long_strings(b'["' + text + b'",1]')

    assert spans == [(2, 2 + len(text))]


@promise("bodies")
def test_the_bounds_of_depth_and_values_are_exact() -> None:
    deepest = b"[" * limits.JSON_DEPTH_MAX + b"]" * limits.JSON_DEPTH_MAX
    widest = b"[" + b"0," * (limits.JSON_VALUES_MAX - 2) + b"0]"

    check_shape(deepest)
    check_shape(widest)

    for past, unit in ((b"[" + deepest + b"]", "levels"), (widest[:-1] + b",0]", "values")):
        with pytest.raises(LimitExceededError) as refused:
            check_shape(past)
        assert (refused.value.field, refused.value.unit) == ("body", unit)


def test_what_strings_hold_is_no_structure() -> None:
    text = json.dumps({"content": '[{,\\"' * limits.JSON_VALUES_MAX}).encode()

    check_shape(text)


def test_only_small_texts_with_few_values_are_light() -> None:
    assert is_light(b'{"query":"harbour"}')
    assert not is_light(b"[" + b"{}," * limits.JSON_VALUES_INLINE_MAX + b"{}]")
    assert not is_light(b'"' + b"x" * 300_000 + b'"')
