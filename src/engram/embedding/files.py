"""The directory in which model files are kept, and the proof that a file is what it should be."""

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
PROOF_NAME = ".proved"
DERIVED_PREFIX = "optimised-"
"""Begins the names of files that follow from the others and can be made anew."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file of a model where it should be, and whether its bytes are the pinned ones."""

    file: ModelFile
    path: Path
    state: FileState


class ModelFiles:
    """Model files below one root, a directory for each model and revision."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def directory(self, model: KnownModel) -> Path:
        """Return where `model` is or would be."""
        # The revision keeps two versions of Engram that share a cache out of each other's way.
        return self.root / model.name / model.identity.revision

    def has(self, model: KnownModel) -> bool:
        """Return whether every file of `model` is there in its right size, without reading it."""
        directory = self.directory(model)
        return all(_has_right_size(directory / file.name, file) for file in model.files)

    def probe(self, model: KnownModel) -> None:
        """Return if `model` seems to be there, without reading its files.

        Raises:
            EmbedderUnavailableError: a file is missing or has another size.
        """
        if not self.has(model):
            raise EmbedderUnavailableError(
                f"the model {model.name} is not here: run `engram models pull {model.name}`"
            )

    def require(self, model: KnownModel) -> Path:
        """Return the directory of `model` after proving its files, unless they are as proved before.

        Raises:
            EmbedderUnavailableError: a file is missing or damaged.
        """
        directory = self.directory(model)
        proof = Proof(directory)
        if proof.holds(model):
            return directory
        for kept in examine(model, directory):
            if kept.state != "whole":
                raise EmbedderUnavailableError(
                    f"the model {model.name} is not usable, {kept.file.name} is {kept.state}: "
                    f"run `engram models pull {model.name}`"
                )
        proof.write(model)
        return directory

    def drop_derived(self, model: KnownModel) -> None:
        """Remove what was made of the files of `model`; whoever needs it makes it anew."""
        for path in self.directory(model).glob(f"{DERIVED_PREFIX}*"):
            path.unlink(missing_ok=True)


class Proof:
    """What the files of a model were like when their bytes were last proved.

    Reading 65 MB at every start costs more than loading them. A file that has changed since, as far as
    its size and time tell, is proved anew; `engram models verify` always is.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._path = directory / PROOF_NAME

    def holds(self, model: KnownModel) -> bool:
        """Say whether the files are as they were when they were proved."""
        try:
            written = json.loads(self._path.read_bytes())
            return written == self._present(model)
        except (OSError, ValueError):
            return False

    def write(self, model: KnownModel) -> None:
        """Note that the files have been proved just now; where nothing can be written, nothing is."""
        staged = self._path.with_name(f"{PROOF_NAME}.{os.getpid()}")
        try:
            staged.write_text(json.dumps(self._present(model)))
            staged.replace(self._path)
        except OSError:
            logger.debug("the proof of %s cannot be kept", model.name, exc_info=True)

    def _present(self, model: KnownModel) -> dict[str, list[int | str]]:
        """Return size, time and pinned hash of each file."""
        found: dict[str, list[int | str]] = {}
        for file in model.files:
            stat = (self._directory / file.name).stat()
            found[file.name] = [stat.st_size, stat.st_mtime_ns, file.hub.sha256]
        return found


def examine(model: KnownModel, directory: Path) -> Iterator[KeptFile]:
    """Yield the state of each file of `model` in `directory`, having read all of it."""
    for file in model.files:
        path = directory / file.name
        yield KeptFile(file=file, path=path, state=_state(path, file))


def matches(path: Path, file: ModelFile) -> bool:
    """Return whether the bytes at `path` are those of `file`, in any accepted spelling."""
    return _has_right_size(path, file) and digest(path) in {
        spelling.sha256 for spelling in file.spellings()
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
        # What cannot be read cannot be used, whatever the reason.
        return "damaged"


def _has_right_size(path: Path, file: ModelFile) -> bool:
    try:
        size = path.stat().st_size
    except OSError:
        return False
    return any(size == spelling.size_bytes for spelling in file.spellings())
