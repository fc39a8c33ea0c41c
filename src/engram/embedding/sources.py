"""What a source of model files is, and the error by which it lets the next one try."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from engram.embedding.registry import KnownModel, ModelFile

Advance = Callable[[int], None]
"""Told of each piece that arrives, in bytes."""


class SourceError(Exception):
    """This source cannot give the files; another may."""


class Source(Protocol):
    """A place that model files can come from."""

    @property
    def name(self) -> str:
        """Return what people call this place."""
        ...

    def fetch(
        self, model: KnownModel, files: Sequence[ModelFile], staging: Path, *, advance: Advance
    ) -> None:
        """Put `files` into `staging`, unproven; what is there in part may be gone on with.

        Raises:
            SourceError: it cannot; whole files may have arrived nevertheless.
        """
        ...


class DirectorySource:
    """Files that someone put into the model directory by hand, laid out as on the hub or flat."""

    name = "directory"

    def __init__(self, root: Path) -> None:
        self._root = root

    def fetch(
        self, model: KnownModel, files: Sequence[ModelFile], staging: Path, *, advance: Advance
    ) -> None:
        for file in files:
            found = next(self._candidates(model, file), None)
            if found is None:
                raise SourceError(f"no {file.name} in {self._root / model.name}")
            shutil.copyfile(found, staging / file.name)
            advance(found.stat().st_size)

    def _candidates(self, model: KnownModel, file: ModelFile) -> Iterator[Path]:
        for name in (file.hub.path, file.name):
            path = self._root / model.name / name
            if path.is_file():
                yield path
