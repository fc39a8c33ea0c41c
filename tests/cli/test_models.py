"""`engram models`: what is known, what is here, and what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.embedding.registry import ARCTIC, MODELS, POTION
from tests.cli.commands import Engram


@pytest.fixture
def empty(tmp_path: Path) -> str:
    """Return a model directory without models."""
    return str(tmp_path / "models")


def test_list_shows_every_model_and_which_are_needed(engram: Engram, empty: str) -> None:
    models = engram("models", "list", "--json", model_dir=empty, embedder="local").json["models"]

    assert [model["name"] for model in models] == [model.name for model in MODELS]
    assert [model["name"] for model in models if model["needed"]] == [ARCTIC.name, POTION.name]
    assert not any(model["here"] for model in models)
    assert "missing" in engram("models", "list", model_dir=empty, embedder="local").stdout


def test_models_that_make_has_provisioned_are_whole(engram: Engram) -> None:
    files = engram("models", "verify", "--json", embedder="local").json["files"]

    assert len(files) == 4
    assert {file["state"] for file in files} == {"whole"}


def test_pulling_what_is_here_changes_nothing(engram: Engram) -> None:
    pulled = engram("models", "pull", "--json", embedder="local").json["models"]

    assert [(model["name"], model["source"]) for model in pulled] == [
        (ARCTIC.name, None),
        (POTION.name, None),
    ]


def test_verify_fails_where_a_file_is_missing(engram: Engram, empty: str) -> None:
    outcome = engram("models", "verify", model_dir=empty, embedder="local")

    assert outcome.status == 1
    assert outcome.stdout.count("missing") == 4


def test_settings_without_a_model_need_none(engram: Engram, empty: str) -> None:
    outcome = engram("models", "pull", "--json", model_dir=empty, embedder="none")

    assert outcome.json == {"models": []}


def test_a_model_nobody_can_give_fails_with_every_reason(engram: Engram, empty: str) -> None:
    outcome = engram(
        "models", "pull", "bge-small-en-v1.5", model_dir=empty, model_hub="http://127.0.0.1:1"
    )

    assert outcome.status == 1
    assert "embedder_unavailable" in outcome.stderr
    assert "hub" in outcome.stderr


def test_an_unknown_model_is_a_mistake(engram: Engram) -> None:
    outcome = engram("models", "pull", "bert")

    assert outcome.status == 2
    assert "engram models list" in outcome.stderr


def test_path_shows_the_directory_of_all_models_or_of_one(engram: Engram, empty: str) -> None:
    assert engram("models", "path", model_dir=empty).stdout.strip() == empty
    one = engram("models", "path", POTION.name, "--json", model_dir=empty).json["path"]
    assert one == str(Path(empty) / POTION.name / POTION.identity.revision)
