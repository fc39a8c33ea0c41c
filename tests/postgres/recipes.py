"""The commands of a page on PostgreSQL, and a shell that runs them with the server's own programs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.cli.commands import inherited_environment
from tests.postgres.servers import programs

_DOCS = Path(__file__).parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks in a language of the section on PostgreSQL of a page."""
    text = (_DOCS / page).read_text(encoding="utf-8")
    section = text.partition("## PostgreSQL")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.DOTALL | re.MULTILINE)


def run(script: str, directory: Path, **variables: str) -> str:
    """Return what a script prints."""
    environment = inherited_environment()
    path = f"{programs()}:{Path(sys.executable).parent}:{environment['PATH']}"
    own = {"PATH": path, "ENGRAM_HOME": str(directory / "home"), "ENGRAM_EMBEDDER": "none"}
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=directory,
        env={**environment, **own, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
