"""Gets a model's files from the first source that can give them, proves them, and moves them in.

Any number of processes may do this at once: one works, the others wait for it and find the files.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engram.embedding.carrier import CarrierSource
from engram.embedding.files import ModelFiles, examine, matches
from engram.embedding.hub import HubSource
from engram.embedding.registry import KnownModel, ModelFile
from engram.embedding.sources import Advance, DirectorySource, Source, SourceError
from engram.errors import EmbedderUnavailableError
from engram.limits import MODEL_LOCK_S


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model that is now here, and where it came from; None if it was here already."""

    model: KnownModel
    directory: Path
    source: str | None


def all_sources(files: ModelFiles, *, hub: str) -> tuple[Source, ...]:
    """Return every source in the order in which they are tried."""
    return DirectorySource(files.root), HubSource(hub), CarrierSource()


def pull_model(
    model: KnownModel, files: ModelFiles, sources: Sequence[Source], *, advance: Advance
) -> Pulled:
    """Make sure that `model` is here.

    Raises:
        EmbedderUnavailableError: no source can give it, or the directory cannot be written.
    """
    try:
        with _locked(files.directory(model)):
            pulled = _Pull(model, files.directory(model), advance).run(sources)
            if pulled.source is not None:
                files.drop_derived(model)
            return pulled
    except OSError as exc:
        raise EmbedderUnavailableError(f"{files.root}: {exc.strerror or exc}") from exc


class _Pull:
    """One model on its way into its directory."""

    def __init__(self, model: KnownModel, directory: Path, advance: Advance) -> None:
        self._model = model
        self._directory = directory
        self._staging = directory.with_name(f"{directory.name}.part")
        self._advance = advance
        self._failures = list[str]()

    def run(self, sources: Sequence[Source]) -> Pulled:
        missing = _missing(self._model, self._directory)
        if not missing:
            return Pulled(self._model, self._directory, None)
        self._staging.mkdir(exist_ok=True)
        for source in sources:
            self._try(source, missing)
            missing = _missing(self._model, self._directory)
            if not missing:
                shutil.rmtree(self._staging)
                return Pulled(self._model, self._directory, source.name)
        raise EmbedderUnavailableError(
            f"no source has the model {self._model.name} ({'; '.join(self._failures)})"
        )

    def _try(self, source: Source, missing: Sequence[ModelFile]) -> None:
        try:
            source.fetch(self._model, missing, self._staging, advance=self._advance)
            complete = True
        except SourceError as exc:
            self._failures.append(f"{source.name}: {exc}")
            complete = False
        for file in missing:
            if not self._move_in(file, complete=complete):
                self._failures.append(f"{source.name}: {file.name} is not the pinned file")

    def _move_in(self, file: ModelFile, *, complete: bool) -> bool:
        """Move a proven file in; remove and deny one that is complete and yet wrong."""
        staged = self._staging / file.name
        if not staged.exists():
            return True
        if matches(staged, file):
            staged.replace(self._directory / file.name)
            return True
        if complete or staged.stat().st_size >= file.hub.size_bytes:
            staged.unlink()
            return False
        return True


def _missing(model: KnownModel, directory: Path) -> list[ModelFile]:
    return [kept.file for kept in examine(model, directory) if kept.state != "whole"]


@contextmanager
def _locked(directory: Path) -> Generator[None]:
    from filelock import FileLock, Timeout

    directory.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(directory.with_name(f"{directory.name}.lock"), timeout=MODEL_LOCK_S):
            yield
    except Timeout as exc:
        raise EmbedderUnavailableError("another process is still getting this model") from exc
