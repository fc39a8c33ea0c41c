"""The cached optimised graph of a model: written, used, and replaced when it is damaged."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from engram.embedding.files import DERIVED_PREFIX, ModelFiles
from engram.embedding.onnx_model import CachedGraph, OnnxModel
from engram.embedding.registry import ARCTIC
from engram.embedding.tokens import load_tokenizer

SHA256 = ARCTIC.files[0].hub.sha256
TEXTS = ("", "Where is the spare key?", "The ferry was late again. " * 60)


@pytest.fixture
def directory(files: ModelFiles, tmp_path: Path) -> Path:
    """Return a directory with the model and no derived files."""
    known = files.directory(ARCTIC)
    for name in ("model.onnx", "tokenizer.json"):
        shutil.copy(known / name, tmp_path)
    return tmp_path


def load(directory: Path, *, sha256: str | None = SHA256) -> OnnxModel:
    return OnnxModel(
        model=directory / "model.onnx",
        tokenizer=load_tokenizer(directory / "tokenizer.json"),
        pooling="cls",
        window=512,
        sha256=sha256,
    )


def vectors(model: OnnxModel) -> list[bytes]:
    return [model.embed_start(text).tobytes() for text in TEXTS]


def derived(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob(f"{DERIVED_PREFIX}*"))


def test_the_cached_graph_gives_identical_vectors(directory: Path) -> None:
    plain = vectors(load(directory, sha256=None))
    assert derived(directory) == []

    making, kept = vectors(load(directory)), CachedGraph(directory, sha256=SHA256)

    assert kept.open() is not None
    assert derived(directory) == [kept.path.with_suffix(".json").name, kept.path.name]
    assert plain == making == vectors(load(directory))


def test_a_cached_graph_is_used_without_the_model(directory: Path) -> None:
    before = vectors(load(directory))
    (directory / "model.onnx").write_bytes(b"no model any more")

    assert vectors(load(directory)) == before


@pytest.mark.parametrize("is_noted", [True, False])
@pytest.mark.parametrize("content", [b"", b"no graph", None])
def test_an_unusable_graph_is_made_again(
    directory: Path, content: bytes | None, *, is_noted: bool
) -> None:
    before = vectors(load(directory))
    graph = CachedGraph(directory, sha256=SHA256)
    whole = graph.path.read_bytes()
    graph.path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    if is_noted:
        stat = graph.path.stat()
        note = f"[{stat.st_size}, {stat.st_mtime_ns}]"
        graph.path.with_suffix(".json").write_text(note)

    assert graph.open() is None
    assert vectors(load(directory)) == before
    assert graph.path.read_bytes() == whole
    assert graph.open() is not None


def test_a_graph_modified_after_it_was_written_is_not_used(directory: Path) -> None:
    load(directory)
    graph = CachedGraph(directory, sha256=SHA256)
    os.utime(graph.path, ns=(0, 0))

    assert graph.open() is None


def test_models_do_not_share_a_graph(directory: Path) -> None:
    assert (
        CachedGraph(directory, sha256=SHA256).path != CachedGraph(directory, sha256="0" * 64).path
    )


def test_without_a_writable_cache_the_model_is_opened_directly(directory: Path) -> None:
    # A directory in the place of the file is in everybody's way, also the superuser's.
    CachedGraph(directory, sha256=SHA256).path.mkdir()

    model = load(directory)

    assert np.isfinite(model.embed_start("still here")).all()


def test_dropping_derived_files_leaves_the_model_itself(directory: Path, tmp_path: Path) -> None:
    files = ModelFiles(tmp_path / "models")
    place = files.directory(ARCTIC)
    place.mkdir(parents=True)
    for name in ("model.onnx", "tokenizer.json"):
        (directory / name).rename(place / name)
    load(place)
    assert len(derived(place)) == 2

    files.drop_derived(ARCTIC)

    assert sorted(path.name for path in place.iterdir()) == ["model.onnx", "tokenizer.json"]
    files.drop_derived(ARCTIC)
