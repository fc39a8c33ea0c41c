"""Serialized identities, their scales, and the validation of vectors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from engram.embedding.hashed import IDENTITY
from engram.embedding.port import EmbedderIdentity, check_vectors, unit_rows
from engram.embedding.registry import (
    ARCTIC,
    MODELS,
    POTION,
    UNMEASURED,
    calibration_of,
    known_model,
    prefixes_of,
)
from engram.errors import EmbedderMismatchError, InvalidVectorError, NotFoundError
from engram.model.value import replace

IDENTITIES = st.builds(EmbedderIdentity)


@given(IDENTITIES)
def test_an_identity_round_trips_through_text(identity: EmbedderIdentity) -> None:
    assert EmbedderIdentity.from_text(identity.as_text()) == identity


@given(IDENTITIES, IDENTITIES)
def test_two_identities_share_a_text_only_if_they_are_equal(
    one: EmbedderIdentity, other: EmbedderIdentity
) -> None:
    assert (one.as_text() == other.as_text()) == (one == other)


def test_the_serialized_identity_is_stable() -> None:
    assert ARCTIC.identity.as_text() == snapshot(
        '{"dimensions":384,"max_tokens":510,"name":"snowflake-arctic-embed-s","passage_prefix":"","pooling":"cls","query_prefix":"Represent this sentence for searching relevant passages: ","revision":"f93ff225320628d2"}'
    )
    assert POTION.identity.as_text() == snapshot(
        '{"dimensions":256,"max_tokens":1000000,"name":"potion-base-8M","passage_prefix":"","pooling":"mean","query_prefix":"","revision":"f65d0f325faadc1e"}'
    )


def test_a_revision_is_the_start_of_the_model_file_s_digest() -> None:
    for model in MODELS:
        assert model.files[0].hub.sha256.startswith(model.identity.revision)


def test_scales_belong_to_the_model_under_any_name_a_service_gives_it() -> None:
    served = replace(ARCTIC.identity, name="Snowflake/Snowflake-Arctic-Embed-S:latest")

    assert calibration_of(served) == ARCTIC.calibration
    assert calibration_of(POTION.identity) == POTION.calibration
    assert calibration_of(IDENTITY) == UNMEASURED
    assert prefixes_of("BAAI/bge-small-en-v1.5") == (ARCTIC.identity.query_prefix, "")
    assert prefixes_of("text-embedding-3-small") == ("", "")


def test_an_unknown_model_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        known_model("bert")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_refused(bad: float) -> None:
    rows = np.ones((2, 4), dtype=np.float32)
    rows[1, 2] = bad

    with pytest.raises(InvalidVectorError):
        unit_rows(rows)
    with pytest.raises(InvalidVectorError):
        check_vectors(rows, replace(IDENTITY, dimensions=4), count=2)


def test_a_zero_row_is_refused() -> None:
    rows = np.zeros((1, 4), dtype=np.float32)

    with pytest.raises(InvalidVectorError):
        unit_rows(rows)
    with pytest.raises(InvalidVectorError):
        check_vectors(rows, replace(IDENTITY, dimensions=4), count=1)


def test_a_row_of_other_dimensions_is_refused_with_both_numbers() -> None:
    rows = unit_rows(np.ones((1, 5), dtype=np.float32))

    with pytest.raises(EmbedderMismatchError, match=r"4 dimensions, got 5"):
        check_vectors(rows, replace(IDENTITY, dimensions=4), count=1)


@pytest.mark.parametrize("count", [0, 2])
def test_a_missing_or_extra_row_is_refused(count: int) -> None:
    rows = unit_rows(np.ones((1, 4), dtype=np.float32))

    with pytest.raises(InvalidVectorError):
        check_vectors(rows, replace(IDENTITY, dimensions=4), count=count)


def test_unit_rows_pass() -> None:
    rows = unit_rows(np.array([[3, 4], [0, 1e-30], [3e30, 4e30]], dtype=np.float32))

    check_vectors(rows, replace(IDENTITY, dimensions=2), count=3)
    assert np.allclose(rows, [[0.6, 0.8], [0, 1], [0.6, 0.8]])
