"""`engram reembed` on a store of three messages."""

from __future__ import annotations

import pytest
from dirty_equals import IsPartialDict, IsPositiveInt

from tests.cli.commands import Engram

POTION = "local:potion-base-8M"


@pytest.fixture
def hashed(engram: Engram, conversation: str) -> Engram:
    """Return the command line on a store whose vectors are hashed."""
    assert conversation
    assert engram("reembed", embedder="hash").status == 0
    return engram


def test_a_dry_run_says_what_there_is_to_do_and_does_nothing(hashed: Engram) -> None:
    planned = hashed("reembed", "--model", POTION, "--dry-run", "--json", embedder="hash").json
    shown = hashed("reembed", "--model", POTION, "--dry-run", embedder="hash")

    assert planned["embedder"] == POTION
    assert planned["organizations"] == [
        IsPartialDict(
            name="local",
            deep="hash",
            half_built=None,
            target="potion-base-8M",
            messages=3,
            messages_to_embed=3,
            passages_estimated=3,
        )
    ]
    assert "hash" in shown.stdout
    assert "about 3" in shown.stdout
    assert "nothing was changed" in shown.stderr


def test_all_vectors_become_those_of_the_new_embedder(hashed: Engram) -> None:
    outcome = hashed("reembed", "--model", POTION, embedder="hash")

    assert "embedded 3 messages, removed 3 old vectors" in outcome.stdout
    assert f"set ENGRAM_EMBEDDER={POTION}" in outcome.stderr
    assert hashed("search", "hotel", "--json", embedder=POTION).json["degraded"] == []
    assert (
        "embedder_changed" in hashed("search", "hotel", "--json", embedder="hash").json["degraded"]
    )
    assert hashed("doctor", "--json", embedder=POTION).json["findings"] == []


def test_again_there_is_nothing_to_do(hashed: Engram) -> None:
    outcome = hashed("reembed", embedder="hash")

    assert outcome.status == 0
    assert "nothing to do" in outcome.stdout
    assert "ENGRAM_EMBEDDER" not in outcome.stderr


def test_messages_without_any_vector_get_theirs(engram: Engram, conversation: str) -> None:
    assert conversation

    answer = engram("reembed", "--json", embedder="hash").json

    assert answer["organizations"] == [
        IsPartialDict(
            messages_embedded=IsPositiveInt,
            messages_refused=0,
            half_built_dropped=None,
            vectors_removed=0,
            pending=0,
        )
    ]


def test_one_organisation_can_be_named(hashed: Engram) -> None:
    made = hashed("orgs", "create", "Acme", "--json", embedder="hash").json

    answer = hashed(
        "reembed", "--org", made["organization_id"], "--model", POTION, "--json", embedder="hash"
    ).json

    assert [one["organization_id"] for one in answer["organizations"]] == [made["organization_id"]]
    assert hashed("status", "--json", embedder="hash").json["degraded"] == []


def test_an_unknown_organisation_is_a_mistake(hashed: Engram) -> None:
    outcome = hashed("reembed", "--organization", "org_none", embedder="hash")

    assert outcome.status == 2
    assert "not_found" in outcome.stderr


@pytest.mark.parametrize("model", ["none", "nonsense", "local:nothing"])
def test_what_makes_no_vectors_is_a_mistake(hashed: Engram, model: str) -> None:
    outcome = hashed("reembed", "--model", model, embedder="hash")

    assert outcome.status == 2
    assert "ENGRAM_EMBEDDER" in outcome.stderr
