"""The directory of downloaded models, and the verification of its files against pinned hashes."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engram.embedding.registry import KnownModel, ModelFile
from engram.errors import EmbedderUnavailableError

FileState = Literal["whole", "missing", "damaged"]
STAMP_NAME = ".proved"
DERIVED_PREFIX = "optimised-"
"""Starts the names of files that are derived from the others and can be made again."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file of a model, and whether its content is the pinned one."""

    file: ModelFile
    path: Path
    state: FileState


class ModelFiles:
    """Model files below one root, in a directory for each model and revision."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def directory(self, model: KnownModel) -> Path:
        """Return the directory of `model`, which may not exist."""
        # The revision keeps two versions of Engram that share a cache out of each other's way.
        return self.root / model.name / model.identity.revision

    def has(self, model: KnownModel) -> bool:
        """Return True if every file of `model` exists in its right size, without reading it."""
        directory = self.directory(model)
        return all(_has_right_size(directory / file.name, file) for file in model.files)

    def probe(self, model: KnownModel) -> None:
        """Return if `model` seems to be installed, without reading its files.

        Raises:
            EmbedderUnavailableError: a file is missing or has another size.
        """
        if not self.has(model):
            raise EmbedderUnavailableError(
                f"the model {model.name} is not installed: run `engram models pull {model.name}`"
            )

    def require(self, model: KnownModel) -> Path:
        """Return the directory of `model`, with its files verified unless they are unchanged since.

        Raises:
            EmbedderUnavailableError: a file is missing or damaged.
        """
        directory = self.directory(model)
        stamp = VerificationStamp(directory)
        if stamp.is_valid(model):
            return directory
        for checked in examine(model, directory):
            if checked.state != "whole":
                raise EmbedderUnavailableError(
                    f"the model {model.name} is not usable, {checked.file.name} is "
                    f"{checked.state}: run `engram models pull {model.name}`"
                )
        stamp.write(model)
        return directory

    def drop_derived(self, model: KnownModel) -> None:
        """Remove the files derived from those of `model`; they are made again when needed."""
        for path in self.directory(model).glob(f"{DERIVED_PREFIX}*"):
            path.unlink(missing_ok=True)


class VerificationStamp:
    """Size and time of a model's files when their hashes were last verified.

    Hashing 65 MB at every start costs more than loading the model. Files whose size or time has
    changed are verified again; `engram models verify` ignores the stamp.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / STAMP_NAME

    def is_valid(self, model: KnownModel) -> bool:
        """Return True if the files are unchanged since they were verified."""
        try:
            return json.loads(self._path.read_bytes()) == self._current(model)
        except (OSError, ValueError):
            return False

    def write(self, model: KnownModel) -> None:
        """Record that the files have just been verified, if the directory is writable."""
        staged = self._path.with_name(f"{STAMP_NAME}.{os.getpid()}")
        try:
            staged.write_text(json.dumps(self._current(model)))
            staged.replace(self._path)
        except OSError:
            logger.debug("cannot record that %s was verified", model.name, exc_info=True)

    def _current(self, model: KnownModel) -> dict[str, list[int | str]]:
        """Return size, time and pinned hash of each file."""
        found: dict[str, list[int | str]] = {}
        for file in model.files:
            stat = (self._directory / file.name).stat()
            found[file.name] = [stat.st_size, stat.st_mtime_ns, file.hub.sha256]
        return found


def examine(model: KnownModel, directory: Path) -> Iterator[CheckedFile]:
    """Hash each file of `model` in `directory` and yield its state."""
    for file in model.files:
        path = directory / file.name
        yield CheckedFile(file=file, path=path, state=_state(path, file))


def matches(path: Path, file: ModelFile) -> bool:
    """Return True if the file at `path` has one of the pinned hashes of `file`."""
    return _has_right_size(path, file) and digest(path) in {
        variant.sha256 for variant in file.variants()
    }


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _state(path: Path, file: ModelFile) -> FileState:
    if not path.is_file():
        return "missing"
    try:
        return "whole" if matches(path, file) else "damaged"
    except OSError:
        # An unreadable file is unusable, whatever the reason.
        return "damaged"


def _has_right_size(path: Path, file: ModelFile) -> bool:
    try:
        size = path.stat().st_size
    except OSError:
        return False
    return any(size == variant.size_bytes for variant in file.variants())
