"""Parsing the setting, and building embedders from it without loading anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engram.embedding.choice import (
    EmbedderChoice,
    Hashed,
    LocalModel,
    NoEmbedder,
    OnnxDirectory,
    RemoteService,
    models_of,
    parse_choice,
)
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.local import OnnxEmbedder, StaticEmbedder
from engram.embedding.registry import ARCTIC, BGE_SMALL, POTION
from engram.embedding.remote import RemoteAddress, RemoteEmbedder
from engram.errors import ConfigurationError
from engram.settings import load_settings, to_environment
from engram.wiring import build_embedders
from tests.fakes import FakeClock

CHOICES: dict[str, EmbedderChoice] = {
    "local": LocalModel(),
    "local:bge-small-en-v1.5": LocalModel("bge-small-en-v1.5"),
    "onnx:/srv/models/mine": OnnxDirectory(Path("/srv/models/mine")),
    "openai:http://localhost:11434/v1#nomic-embed-text": RemoteService(
        "http://localhost:11434/v1", "nomic-embed-text"
    ),
    "openai:https://example.org/e?a=1#Owner/Model:tag": RemoteService(
        "https://example.org/e?a=1", "Owner/Model:tag"
    ),
    "hash": Hashed(),
    "none": NoEmbedder(),
}


@pytest.mark.parametrize("text", CHOICES)
def test_a_choice_is_written_as_it_is_read(text: str) -> None:
    choice = parse_choice(text)

    assert choice == CHOICES[text]
    assert str(choice) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Local",
        "local:",
        "local:bge",
        "onnx",
        "onnx:",
        "openai",
        "openai:http://localhost",
        "openai:http://localhost#",
        "openai:localhost:8080#model",
        "openai:ftp://host#model",
        "hash:1",
        "none:",
    ],
)
def test_anything_else_is_refused_and_names_the_setting(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"must be|did you mean|is written"):
        parse_choice(text)
    if text:
        with pytest.raises(ConfigurationError) as caught:
            load_settings({"home": tmp_path}, environment={"ENGRAM_EMBEDDER": text})
        assert caught.value.setting == "ENGRAM_EMBEDDER"


def test_settings_hand_the_choice_on_to_other_processes(tmp_path: Path) -> None:
    chosen = {"ENGRAM_EMBEDDER": "local:bge-small-en-v1.5", "ENGRAM_MODEL_DIR": "~/models"}
    settings = load_settings({"home": tmp_path}, environment=chosen)

    assert settings.embedder == LocalModel("bge-small-en-v1.5")
    assert settings.model_dir == Path("~/models").expanduser()
    assert load_settings(environment=to_environment(settings)) == settings


def test_models_are_in_the_cache_directory_by_default(tmp_path: Path) -> None:
    settings = load_settings({"home": tmp_path}, environment={"XDG_CACHE_HOME": "/var/cache"})

    assert settings.model_dir == Path("/var/cache/engram/models")
    assert settings.embedder == LocalModel(ARCTIC.name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("local", {"deep": OnnxEmbedder, "instant": StaticEmbedder}),
        ("local:potion-base-8M", {"deep": StaticEmbedder}),
        ("onnx:/srv/models/mine", {"deep": OnnxEmbedder, "instant": StaticEmbedder}),
        ("openai:http://localhost#m", {"deep": RemoteEmbedder}),
        ("hash", {"deep": HashedEmbedder}),
        ("none", {}),
    ],
)
async def test_each_choice_has_its_tiers(
    tmp_path: Path, text: str, expected: dict[str, type]
) -> None:
    settings = load_settings({"home": tmp_path}, environment={"ENGRAM_EMBEDDER": text})

    tiers = build_embedders(settings, clock=FakeClock())

    assert {each.tier: type(each.embedder) for each in tiers.all} == expected
    await tiers.close()


@pytest.mark.parametrize(
    ("text", "quick"),
    [
        ("local", StaticEmbedder),
        ("local:potion-base-8M", StaticEmbedder),
        ("openai:http://localhost#m", None),
        ("hash", None),
        ("none", None),
    ],
)
async def test_only_a_static_model_embeds_on_the_write_path(
    tmp_path: Path, text: str, quick: type | None
) -> None:
    settings = load_settings({"home": tmp_path}, environment={"ENGRAM_EMBEDDER": text})

    tiers = build_embedders(settings, clock=FakeClock())

    assert (None if tiers.quick is None else type(tiers.quick.embedder)) is quick
    await tiers.close()


def test_only_local_models_need_files() -> None:
    assert models_of(LocalModel()) == (ARCTIC, POTION)
    assert models_of(LocalModel(BGE_SMALL.name)) == (BGE_SMALL, POTION)
    assert models_of(LocalModel(POTION.name)) == (POTION,)
    assert models_of(OnnxDirectory(Path("mine"))) == (POTION,)
    assert models_of(NoEmbedder()) == models_of(Hashed()) == ()


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://localhost:8080", "http://localhost:8080/v1/embeddings"),
        ("http://localhost:8080/", "http://localhost:8080/v1/embeddings"),
        ("http://localhost/openai/v1/", "http://localhost/openai/v1/embeddings"),
        ("http://localhost/v1/embeddings", "http://localhost/v1/embeddings"),
        ("http://localhost/v1?version=2", "http://localhost/v1/embeddings?version=2"),
    ],
)
def test_a_short_service_url_is_completed(url: str, endpoint: str) -> None:
    assert RemoteAddress(url, "m").endpoint == endpoint


def test_building_embedders_imports_no_model_library() -> None:
    script = (
        "import sys\n"
        "from engram.clock import SystemClock\n"
        "from engram.settings import load_settings\n"
        "from engram.wiring import build_embedders\n"
        "for choice in ('local', 'onnx:x', 'openai:http://localhost#m', 'hash'):\n"
        "    build_embedders(load_settings({'embedder': choice}), clock=SystemClock())\n"
        "print(*{name.partition('.')[0] for name in sys.modules})\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )

    heavy = {"numpy", "onnxruntime", "tokenizers", "httpx", "filelock"}
    assert not heavy & set(ended.stdout.split())
