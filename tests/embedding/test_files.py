"""Verifying model files: once, and again when they have changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engram.embedding.files import STAMP_NAME, ModelFiles, examine
from engram.errors import EmbedderUnavailableError
from tests.embedding.test_download import MODEL, TOKENIZER, WEIGHTS


@pytest.fixture
def files(tmp_path: Path) -> ModelFiles:
    """Return a directory that contains the model."""
    files = ModelFiles(tmp_path / "models")
    directory = files.directory(MODEL)
    directory.mkdir(parents=True)
    (directory / "model.safetensors").write_bytes(WEIGHTS)
    (directory / "tokenizer.json").write_bytes(TOKENIZER)
    return files


def damage(files: ModelFiles, *, keep_time: bool) -> None:
    """Change a byte of the weights, so that only the modification time may differ."""
    path = files.directory(MODEL) / "model.safetensors"
    before = path.stat()
    path.write_bytes(b"?" + WEIGHTS[1:])
    shift = 0 if keep_time else 1_000_000_000
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + shift))


def test_a_file_that_changed_after_verification_is_verified_again(files: ModelFiles) -> None:
    files.require(MODEL)
    damage(files, keep_time=False)

    with pytest.raises(EmbedderUnavailableError, match="damaged"):
        files.require(MODEL)


def test_unchanged_files_are_not_read_again(files: ModelFiles) -> None:
    files.require(MODEL)
    damage(files, keep_time=True)

    assert files.require(MODEL) == files.directory(MODEL)
    assert [kept.state for kept in examine(MODEL, files.directory(MODEL))] == ["damaged", "whole"]


@pytest.mark.parametrize("written", ["", "{}", "[1]", '{"model.safetensors": [1, 2, "x"]}'])
def test_an_unreadable_or_foreign_stamp_is_ignored(files: ModelFiles, written: str) -> None:
    damage(files, keep_time=True)
    (files.directory(MODEL) / STAMP_NAME).write_text(written)

    with pytest.raises(EmbedderUnavailableError, match="damaged"):
        files.require(MODEL)


def test_without_a_writable_stamp_files_are_verified_every_time(files: ModelFiles) -> None:
    (files.directory(MODEL) / STAMP_NAME / "in the way").mkdir(parents=True)

    assert files.require(MODEL) == files.directory(MODEL)
    damage(files, keep_time=True)

    with pytest.raises(EmbedderUnavailableError, match="damaged"):
        files.require(MODEL)
