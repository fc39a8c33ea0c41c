"""Any directory with an ONNX model: its files, and how its vectors are made.

How is taken from the registry where the model's bytes are known, else from `engram.json`, else from
the files that sentence-transformers leaves beside a model. It is never guessed: a wrong pooling or a
missing prefix gives vectors that look right and find nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from engram.embedding.files import digest
from engram.embedding.onnx import BERT_WINDOW, OnnxSource
from engram.embedding.port import EmbedderIdentity, Pooling
from engram.embedding.registry import MODELS
from engram.errors import EmbedderUnavailableError

MODEL_PATHS = (
    "model.onnx",
    "onnx/model.onnx",
    "model_quantized.onnx",
    "onnx/model_quantized.onnx",
)
OWN_FILE = "engram.json"
OWN_DEFAULTS: dict[str, Any] = {
    "pooling": "mean",
    "max_tokens": 512,
    "query_prefix": "",
    "passage_prefix": "",
}
REVISION_DIGITS = 16


def find_directory(directory: Path) -> OnnxSource:
    """Return the model in `directory` and how it is used.

    Raises:
        EmbedderUnavailableError: a file is missing, or nothing says how the model is used.
    """
    model = _first_file(directory, MODEL_PATHS)
    tokenizer = _first_file(directory, ("tokenizer.json",))
    sha256 = digest(model)
    known = _registered(sha256)
    if known is not None:
        return OnnxSource(known, window=BERT_WINDOW, model=model, tokenizer=tokenizer)
    identity = _described(directory, revision=sha256[:REVISION_DIGITS])
    return OnnxSource(identity, window=identity.max_tokens, model=model, tokenizer=tokenizer)


def _registered(sha256: str) -> EmbedderIdentity | None:
    for known in MODELS:
        for file in known.files:
            if known.kind == "onnx" and sha256 in {form.sha256 for form in file.spellings()}:
                return known.identity
    return None


def _described(directory: Path, *, revision: str) -> EmbedderIdentity:
    own = _read(directory / OWN_FILE)
    settings = _own_settings(directory, own) if own is not None else _sentence_settings(directory)
    # The dimensions are the model's own and are seen when it runs.
    return EmbedderIdentity(
        name=directory.resolve().name, revision=revision, dimensions=0, **settings
    )


def _own_settings(directory: Path, own: dict[str, Any]) -> dict[str, Any]:
    settings: dict[str, Any] = {**OWN_DEFAULTS, **own}
    right = (
        settings.keys() == OWN_DEFAULTS.keys()
        and settings["pooling"] in ("cls", "mean")
        and all(type(settings[name]) is type(value) for name, value in OWN_DEFAULTS.items())
        and settings["max_tokens"] > 0
    )
    if not right:
        raise EmbedderUnavailableError(
            f"{directory / OWN_FILE} takes pooling (cls or mean), max_tokens, query_prefix and "
            "passage_prefix"
        )
    return settings


def _sentence_settings(directory: Path) -> dict[str, Any]:
    prompting = _read(directory / "config_sentence_transformers.json") or {}
    prompts: dict[str, str] = prompting.get("prompts") or {}
    lengths = _read(directory / "sentence_bert_config.json") or {}
    positions = _read(directory / "config.json") or {}
    return {
        "pooling": _pooling(directory),
        "max_tokens": lengths.get("max_seq_length")
        or positions.get("max_position_embeddings", OWN_DEFAULTS["max_tokens"]),
        "query_prefix": prompts.get("query", ""),
        "passage_prefix": prompts.get("document", prompts.get("passage", "")),
    }


def _pooling(directory: Path) -> Pooling:
    modes = _read(directory / "1_Pooling" / "config.json") or {}
    if modes.get("pooling_mode_cls_token") or modes.get("pooling_mode") == "cls":
        return "cls"
    if modes.get("pooling_mode_mean_tokens") or modes.get("pooling_mode") == "mean":
        return "mean"
    raise EmbedderUnavailableError(
        f"{directory}: nothing says how the model pools; write {OWN_FILE} with "
        '{"pooling": "cls" or "mean", "max_tokens": 512, "query_prefix": "", "passage_prefix": ""}'
    )


def _first_file(directory: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (directory / name).is_file():
            return directory / name
    raise EmbedderUnavailableError(f"{directory} has no {' or '.join(names)}")


def _read(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file, or nothing where there is no file."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise EmbedderUnavailableError(f"{path}: {exc}") from exc
    if not isinstance(content, dict):
        raise EmbedderUnavailableError(f"{path}: not an object")
    return cast("dict[str, Any]", content)
