"""Parses `ENGRAM_EMBEDDER` into a closed union."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from engram.embedding.registry import ARCTIC, MODELS, POTION, KnownModel, known_model
from engram.model.value import Value

FORMS = "local, local:<name>, onnx:<directory>, openai:<url>#<model>, hash or none"


class LocalModel(Value, kw_only=False):
    """A model of the registry that runs in this process."""

    name: str = ARCTIC.name

    def __str__(self) -> str:
        return "local" if self.name == ARCTIC.name else f"local:{self.name}"


class OnnxDirectory(Value, kw_only=False):
    """A user's ONNX model that runs in this process."""

    path: Path

    def __str__(self) -> str:
        return f"onnx:{self.path}"


class RemoteService(Value, kw_only=False):
    """A service compatible with OpenAI's `/v1/embeddings`."""

    url: str
    model: str

    def __str__(self) -> str:
        return f"openai:{self.url}#{self.model}"


class Hashed(Value):
    """No model: hashed words, for tests."""

    def __str__(self) -> str:
        return "hash"


class NoEmbedder(Value):
    """No embedder: search by words alone."""

    def __str__(self) -> str:
        return "none"


EmbedderChoice: TypeAlias = LocalModel | OnnxDirectory | RemoteService | Hashed | NoEmbedder


def parse_choice(text: str) -> EmbedderChoice:
    """Parse a setting; `str` of the result is the setting again.

    Raises:
        ValueError: `text` has none of the forms.
    """
    kind, colon, rest = text.partition(":")
    match kind, colon, rest:
        case "local", "", _:
            return LocalModel()
        case "hash", "", _:
            return Hashed()
        case "none", "", _:
            return NoEmbedder()
        case "local", ":", name:
            return _local(name)
        case "onnx", ":", path if path:
            return OnnxDirectory(Path(path).expanduser())
        case "openai", ":", place:
            return _remote(place)
        case _:
            raise ValueError(f"must be {FORMS}, not {text!r}")


def models_of(choice: EmbedderChoice) -> tuple[KnownModel, ...]:
    """Return the models of the registry that a choice needs."""
    match choice:
        case LocalModel(name) if name != POTION.name:
            return known_model(name), POTION
        case LocalModel() | OnnxDirectory():
            return (POTION,)
        case _:
            return ()


def _local(name: str) -> LocalModel:
    names = [model.name for model in MODELS]
    if name in names:
        return LocalModel(name)
    import difflib

    near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    raise ValueError(f"no model {name!r}; did you mean {near[0]!r}? (`engram models list`)")


def _remote(place: str) -> RemoteService:
    address, _, model = place.rpartition("#")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or not model:
        raise ValueError("a service is written openai:<http or https url>#<model>")
    return RemoteService(url=address, model=model)
