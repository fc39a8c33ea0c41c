"""The models without anything around them, as the floor of what uses them."""

from __future__ import annotations

from engram.embedding.files import ModelFiles, find_registered
from engram.embedding.onnx_model import OnnxModel
from engram.embedding.registry import ARCTIC, POTION
from engram.embedding.static_model import StaticModel
from engram.embedding.tokens import load_tokenizer
from engram.settings import load_settings


def bare_model() -> OnnxModel:
    """Return the model of the deep tier."""
    source = find_registered(ARCTIC, _files())
    return OnnxModel(
        model=source.model,
        tokenizer=load_tokenizer(source.tokenizer),
        pooling=source.identity.pooling,
        window=source.window,
    )


def bare_static_model() -> StaticModel:
    """Return the model of the instant tier."""
    return StaticModel(_files().require(POTION))


def _files() -> ModelFiles:
    return ModelFiles(load_settings().model_dir)
