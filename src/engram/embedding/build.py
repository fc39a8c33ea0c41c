"""Builds the chosen embedders; no model is loaded and no service is called yet."""

from __future__ import annotations

from typing import assert_never

from engram.clock import Clock
from engram.embedding.choice import (
    EmbedderChoice,
    Hashed,
    LocalModel,
    NoEmbedder,
    OnnxDirectory,
    RemoteService,
)
from engram.embedding.files import ModelFiles
from engram.embedding.hashed import HashedEmbedder
from engram.embedding.local import OnnxEmbedder, StaticEmbedder
from engram.embedding.onnx_files import find_directory, find_registered
from engram.embedding.registry import POTION, KnownModel, known_model
from engram.embedding.remote import RemoteAddress, RemoteEmbedder
from engram.embedding.tiers import Tiers


def build_tiers(
    choice: EmbedderChoice, files: ModelFiles, *, threads: int, key: str | None, clock: Clock
) -> Tiers:
    """Return the tiers of a choice; local models have an instant tier beside them."""
    match choice:
        case LocalModel(name):
            return _local(known_model(name), files, threads=threads, clock=clock)
        case OnnxDirectory(path):
            deep = OnnxEmbedder(lambda: find_directory(path), threads=threads, clock=clock)
            return Tiers.of(instant=StaticEmbedder(POTION, files, clock=clock), deep=deep)
        case RemoteService(url, model):
            return Tiers.of(deep=RemoteEmbedder(RemoteAddress(url, model, key), clock=clock))
        case Hashed():
            return Tiers.of(deep=HashedEmbedder())
        case NoEmbedder():
            return Tiers()
        case _:
            assert_never(choice)


def models_of(choice: EmbedderChoice) -> tuple[KnownModel, ...]:
    """Return the models of the registry that a choice needs."""
    match choice:
        case LocalModel(name) if name != POTION.name:
            return known_model(name), POTION
        case LocalModel() | OnnxDirectory():
            return (POTION,)
        case _:
            return ()


def _local(model: KnownModel, files: ModelFiles, *, threads: int, clock: Clock) -> Tiers:
    instant = StaticEmbedder(POTION, files, clock=clock)
    if model.kind == "static":
        return Tiers.of(instant=instant)
    deep = OnnxEmbedder(
        lambda: find_registered(model, files),
        threads=threads,
        clock=clock,
        identity=model.identity,
        probe=lambda: files.probe(model),
    )
    return Tiers.of(instant=instant, deep=deep)
