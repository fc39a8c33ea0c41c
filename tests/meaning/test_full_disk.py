"""A file system that is really full: what cannot be written is refused, what is stored is found."""

from __future__ import annotations

from typing import Any

import pytest

from tests.small_disk import run_on_small_disk

SIZE_BYTES = 4_000_000


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what a server answered before, on and after a full file system."""
    return run_on_small_disk(
        "tests.meaning.programs.full_disk", tmp_path_factory.mktemp("home"), size_bytes=SIZE_BYTES
    )


def test_a_full_disk_refuses_writes_and_answers_searches(answers: Any) -> None:
    assert answers["statuses"] == [200, 200, 507, 503, 200]


def test_a_search_that_cannot_store_vectors_says_that_the_index_lags(answers: Any) -> None:
    search = answers["search"]

    assert (search["degraded"], search["pending"]) == (["index_lag"], 1)
    assert search["results"][0]["messages"][0]["content"] == "The letter came by post"


def test_a_server_on_a_full_disk_is_not_ready_and_says_why(answers: Any) -> None:
    assert answers["full"]["code"] == "unavailable"
    assert "full" in answers["full"]["detail"]


def test_vectors_are_stored_once_there_is_room_again(answers: Any) -> None:
    assert (answers["after"]["degraded"], answers["after"]["pending"]) == ([], 0)
