"""The plugins pass the validators of their clients, and the real clients install and use them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.agents.coding_agents import PATIENCE_S, ClaudeCode
from tests.agents.model_service import ModelService
from tests.engine.processes import wait_until
from tools.agents.programs import CLAUDE_CODE, CODEX, MCPB
from tools.node import NODE_HOME
from tools.plugins import FILES, PLUGIN, ROOT

LINE = "The heron stands in the reeds."
MARKETPLACE = str(ROOT / FILES)
PREFIX = "mcp__plugin_engram_engram__"
BIN = Path(sys.executable).parent
ENGRAM = str(BIN / "engram")
PATH = f"{BIN}:{NODE_HOME / 'bin'}:/usr/local/bin:/usr/bin:/bin"


@pytest.fixture
def settings(tmp_path: Path) -> Generator[Mapping[str, str]]:
    """The environment of an empty store and of a fresh home; the store's engine is stopped at the end."""
    (tmp_path / "home").mkdir()
    home = {"HOME": str(tmp_path / "home"), "PATH": PATH, "ENGRAM_EMBEDDER": "none"}
    environment = {**home, "ENGRAM_HOME": str(tmp_path / "store")}
    yield environment
    subprocess.run([ENGRAM, "engine", "stop"], env=environment, check=True, timeout=PATIENCE_S)


def run(program: Sequence[str | Path], *arguments: str, settings: Mapping[str, str]) -> str:
    """Return what a program prints, which must succeed."""
    ended = subprocess.run(
        [*program, *arguments],
        cwd=settings["HOME"],
        env={**settings, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


class ClaudeCodeOnAStore(ClaudeCode):
    """Claude Code with `engram` on its PATH."""

    def __init__(self, model: ModelService, settings: Mapping[str, str]) -> None:
        super().__init__(Path(settings["HOME"]), model)
        self._store = settings

    def _environment(self) -> Mapping[str, str]:
        return {**super()._environment(), **self._store}


@pytest.mark.parametrize("directory", [FILES, PLUGIN])
def test_claude_code_finds_nothing_wrong(directory: str, settings: Mapping[str, str]) -> None:
    report = run(
        CLAUDE_CODE, "plugin", "validate", "--strict", str(ROOT / directory), settings=settings
    )

    assert "Validation passed" in report


def test_the_manifest_of_the_bundle_is_valid(settings: Mapping[str, str]) -> None:
    manifest = ROOT / FILES / "bundle" / "manifest.json"

    assert "validation passes" in run(MCPB, "validate", str(manifest), settings=settings)


def test_codex_installs_the_plugin_with_its_server(settings: Mapping[str, str]) -> None:
    run(CODEX, "plugin", "marketplace", "add", MARKETPLACE, settings=settings)
    run(CODEX, "plugin", "add", "engram@engram", settings=settings)

    (server,) = json.loads(run(CODEX, "mcp", "list", "--json", settings=settings))
    assert (server["name"], server["enabled"]) == ("engram", True)
    assert server["transport"]["command"] == "engram"
    assert server["transport"]["args"] == ["mcp"]
    assert server["transport"]["env_vars"] == ["ENGRAM_HOME"]


def test_a_session_of_claude_code_with_the_plugin_has_the_tools_and_is_captured(
    model: ModelService, settings: Mapping[str, str]
) -> None:
    run(CLAUDE_CODE, "plugin", "marketplace", "add", MARKETPLACE, settings=settings)
    run(CLAUDE_CODE, "plugin", "install", "engram@engram", settings=settings)

    turn = ClaudeCodeOnAStore(model, settings).turn(LINE)

    assert f"{PREFIX}search" in turn.requests[0].others
    assert any("engram:memory" in text for text in turn.requests[0].texts)
    wait_until(lambda: LINE in run([ENGRAM], "search", "heron", settings=settings))
