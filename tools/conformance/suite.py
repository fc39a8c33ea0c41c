"""The MCP project's conformance suite: installed by name, run with the Node of a Python package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.node import NODE, install_packages

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".conformance"
ENTRY = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
RUN_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One verdict of the suite."""

    scenario: str
    id: str
    status: str
    message: str

    @property
    def name(self) -> str:
        """Return the name expected failures use."""
        return f"{self.scenario}/{self.id}"


def install_suite() -> None:
    """Install the pinned suite unless it is there already."""
    install_packages(Path(__file__).parent, into=INSTALLED)


def run_suite(url: str, *, version: str) -> list[Check]:
    """Return every verdict on the scenarios that a protocol version requires."""
    with tempfile.TemporaryDirectory(prefix="engram-conformance-") as directory:
        # The exit status only says that something failed; the verdicts say what.
        done = subprocess.run(
            [NODE, _entry(), "server", "--url", url, "--requirements", version, "-o", directory],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        checks = list(_read_checks(Path(directory)))
    if not checks:
        sys.exit(f"The conformance suite gave no verdict:\n{done.stdout.decode()}")
    return checks


def _read_checks(directory: Path) -> Iterator[Check]:
    for path in sorted(directory.glob("server-*/checks.json")):
        scenario = re.sub(r"^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$", r"\1", path.parent.name)
        for check in json.loads(path.read_bytes()):
            yield Check(
                scenario=scenario,
                id=check["id"],
                status=check["status"],
                message=check.get("errorMessage") or "",
            )


def _entry() -> Path:
    return INSTALLED / ENTRY
