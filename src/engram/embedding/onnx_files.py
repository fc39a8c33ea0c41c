"""Locates the files of an ONNX model, and finds out how its vectors are made.

For a model of the registry both are known. For a user's directory, pooling and prefixes come from the
registry if the model's hash is there, else from `engram.json`, else from the files that
sentence-transformers leaves beside a model. They are never guessed: a wrong pooling or a missing prefix
gives vectors that look right and find nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from engram.embedding.files import ModelFiles, digest
from engram.embedding.port import EmbedderIdentity, Pooling
from engram.embedding.registry import MODELS, KnownModel
from engram.errors import EmbedderUnavailableError

MODEL_NAME = "model.onnx"
MODEL_PATHS = (
    "model.onnx",
    "onnx/model.onnx",
    "model_quantized.onnx",
    "onnx/model_quantized.onnx",
)
BERT_WINDOW = 512
"""The window of every ONNX model in the registry."""

OWN_FILE = "engram.json"
OWN_DEFAULTS: dict[str, Any] = {
    "pooling": "mean",
    "max_tokens": 512,
    "query_prefix": "",
    "passage_prefix": "",
}
REVISION_DIGITS = 16


@dataclass(frozen=True, slots=True)
class OnnxFiles:
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
