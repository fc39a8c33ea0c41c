"""Model files: the directory of downloaded models, their pinned hashes, and the ONNX models of users.

How the vectors of an ONNX model are made is known for models of the registry. For a user's directory,
pooling and prefixes come from the registry if the model's hash is there, else from `engram.json`, else
from the files that sentence-transformers leaves beside a model. They are never guessed: a wrong pooling
or a missing prefix gives vectors that look right and find nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, cast

from engram.embedding.port import EmbedderIdentity, Pooling
from engram.embedding.registry import MODELS, KnownModel, ModelFile
from engram.errors import EmbedderUnavailableError
from engram.model.value import Value

FileState = Literal["whole", "missing", "damaged"]
STAMP_NAME = ".proved"
DERIVED_PREFIX = "optimised-"
"""Starts the names of files that are derived from the others and can be made again."""

logger = logging.getLogger(__name__)

MODEL_NAME = "model.onnx"
MODEL_PATHS = tuple(
    folder + name for name in (MODEL_NAME, "model_quantized.onnx") for folder in ("", "onnx/")
)

BERT_WINDOW = 512
"""The window of every ONNX model in the registry."""

OWN_FILE = "engram.json"
OWN_DEFAULTS = {"pooling": "mean", "max_tokens": 512, "query_prefix": "", "passage_prefix": ""}
REVISION_DIGITS = 16


class CheckedFile(Value, kw_only=False):
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


class OnnxFiles(Value, kw_only=False):
    """The files of an ONNX model, and what is known about it before it is loaded."""

    identity: EmbedderIdentity
    """If its dimensions are 0, these and `max_tokens` are read off the loaded model."""
    window: int
    """Tokens the model reads, prefix and special ones included."""
    model: Path
    tokenizer: Path
    sha256: str | None = None
    """Hash of the model if derived files may be cached beside it."""


def find_registered(model: KnownModel, files: ModelFiles) -> OnnxFiles:
    """Return the verified files of a model in the registry.

    Raises:
        EmbedderUnavailableError: a file is missing or damaged.
    """
    directory = files.require(model)
    return OnnxFiles(
        identity=model.identity,
        window=BERT_WINDOW,
        model=directory / MODEL_NAME,
        tokenizer=directory / "tokenizer.json",
        sha256=next(file.hub.sha256 for file in model.files if file.name == MODEL_NAME),
    )


def find_directory(directory: Path) -> OnnxFiles:
    """Return the files of the model in a user's directory.

    Raises:
        EmbedderUnavailableError: a file is missing, or none describes how the model pools.
    """
    model = _first_file(directory, MODEL_PATHS)
    tokenizer = _first_file(directory, ("tokenizer.json",))
    sha256 = digest(model)
    registered = _registered_identity(sha256)
    if registered is not None:
        return OnnxFiles(registered, window=BERT_WINDOW, model=model, tokenizer=tokenizer)
    identity = _described_identity(directory, revision=sha256[:REVISION_DIGITS])
    return OnnxFiles(identity, window=identity.max_tokens, model=model, tokenizer=tokenizer)


def _registered_identity(sha256: str) -> EmbedderIdentity | None:
    for model in MODELS:
        for file in model.files:
            if model.kind == "onnx" and sha256 in {variant.sha256 for variant in file.variants()}:
                return model.identity
    return None


def _described_identity(directory: Path, *, revision: str) -> EmbedderIdentity:
    own = _read_object(directory / OWN_FILE)
    settings = _own_settings(directory, own) if own is not None else _sentence_settings(directory)
    # The dimensions are read off the model when it runs.
    return EmbedderIdentity(
        name=directory.resolve().name, revision=revision, dimensions=0, **settings
    )


def _own_settings(directory: Path, own: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {**OWN_DEFAULTS, **own}
    is_valid = (
        settings.keys() == OWN_DEFAULTS.keys()
        and settings["pooling"] in ("cls", "mean")
        and all(type(settings[name]) is type(value) for name, value in OWN_DEFAULTS.items())
        and settings["max_tokens"] > 0
    )
    if not is_valid:
        raise EmbedderUnavailableError(
            f"{directory / OWN_FILE} takes pooling (cls or mean), max_tokens, query_prefix and "
            "passage_prefix"
        )
    return settings


def _sentence_settings(directory: Path) -> dict[str, Any]:
    """Return the settings in the files of sentence-transformers."""
    prompting = _read_object(directory / "config_sentence_transformers.json") or {}
    prompts: dict[str, str] = prompting.get("prompts") or {}
    lengths = _read_object(directory / "sentence_bert_config.json") or {}
    positions = _read_object(directory / "config.json") or {}
    return {
        "pooling": _pooling(directory),
        "max_tokens": lengths.get("max_seq_length")
        or positions.get("max_position_embeddings", OWN_DEFAULTS["max_tokens"]),
        "query_prefix": prompts.get("query", ""),
        "passage_prefix": prompts.get("document", prompts.get("passage", "")),
    }


def _pooling(directory: Path) -> Pooling:
    modes = _read_object(directory / "1_Pooling" / "config.json") or {}
    if modes.get("pooling_mode_cls_token") or modes.get("pooling_mode") == "cls":
        return "cls"
    if modes.get("pooling_mode_mean_tokens") or modes.get("pooling_mode") == "mean":
        return "mean"
    raise EmbedderUnavailableError(
        f"{directory}: no file describes how the model pools; write {OWN_FILE} with "
        '{"pooling": "cls" or "mean", "max_tokens": 512, "query_prefix": "", "passage_prefix": ""}'
    )


def _first_file(directory: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (directory / name).is_file():
            return directory / name
    raise EmbedderUnavailableError(f"{directory} has no {' or '.join(names)}")


def _read_object(path: Path) -> dict[str, Any] | None:
    """Parse a file with a JSON object; return None if the file does not exist."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise EmbedderUnavailableError(f"{path}: {exc}") from exc
    if not isinstance(content, dict):
        raise EmbedderUnavailableError(f"{path} is not a JSON object")
    return cast("dict[str, Any]", content)
