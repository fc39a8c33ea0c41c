"""What may be said of a memory when it is kept, for every command that keeps one."""

from __future__ import annotations

from typing import Annotated

import typer

from engram import limits
from engram.model.memory import Category, MemoryType

Type = Annotated[MemoryType, typer.Option("--type", help="What kind of memory it is.")]
OwnCategory = Annotated[Category, typer.Option(help="What it is about.")]
OwnSource = Annotated[
    str | None, typer.Option(metavar="NAME", help="Where it comes from. [default: manual]")
]
Importance = Annotated[
    int, typer.Option(min=0, max=limits.IMPORTANCE_MAX, help="0 is critical, 4 is trivial.")
]
OwnTags = Annotated[
    list[str] | None, typer.Option("--tag", "-t", metavar="TAG", help="A tag; repeat for more.")
]
OwnProject = Annotated[str | None, typer.Option(metavar="NAME", help="The project it belongs to.")]
