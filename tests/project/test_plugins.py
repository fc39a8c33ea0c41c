"""The plugins that are committed are what the description gives, and name only what exists."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engram.clients import hooks
from engram.clients.hooks import HookNames
from engram.environment import default_home
from engram.hooks.events import meaning_of
from engram.mcp.tools import TOOLS
from engram.model.access import DEFAULT_TOOLSETS
from tools import plugins


def test_the_committed_files_are_what_the_description_gives() -> None:
    assert [] == plugins.stale(plugins.generated()), "run `make plugins`"


def test_a_file_that_differs_or_that_nobody_generates_is_stale() -> None:
    files = plugins.generated()
    skill = next(path for path in files if path.endswith("SKILL.md"))
    manifest = next(path for path in files if path.endswith("server.json"))

    changed = {**files, skill: "something else"}
    del changed[manifest]

    assert {skill, manifest} == set(plugins.stale(changed))


def test_the_skill_names_tools_that_every_client_is_shown() -> None:
    named = {word for word in re.findall(r"`(\w+)`", plugins.SKILL) if word != plugins.NAME}

    shown = {tool.name for tool in TOOLS if tool.toolset in DEFAULT_TOOLSETS}
    assert named >= {"search", "store_note", "remove_entry", "delete_conversation"}
    assert named <= shown


@pytest.mark.parametrize("names", [hooks.CLAUDE, hooks.CODEX, hooks.CURSOR])
def test_a_plugin_runs_the_hook_of_each_event_that_the_client_has(names: HookNames) -> None:
    written = plugins.hooks_of(names)["hooks"]

    assert written.keys() == names.events.keys()
    for name, (entry,) in written.items():
        assert f'"engram hook {meaning_of(name)}"' in json.dumps(entry)


def test_the_entry_of_the_registry_keeps_to_its_rules_and_the_readme_proves_it() -> None:
    entry = json.loads(plugins.generated()["plugins/registry/server.json"])

    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 1 <= len(entry["description"]) <= 100
    assert entry["version"] == entry["packages"][0]["version"]
    assert f"<!-- mcp-name: {entry['name']} -->" in (plugins.ROOT / "README.md").read_text()


def test_the_bundle_uses_the_store_that_commands_use() -> None:
    manifest = json.loads(plugins.generated()["plugins/bundle/manifest.json"])

    home = manifest["user_config"]["home"]["default"]
    assert home.replace("${HOME}", str(Path.home())) == default_home({})


def test_the_source_in_a_bundle_runs_and_is_the_same_each_time(tmp_path: Path) -> None:
    first, second = tmp_path / "first.mcpb", tmp_path / "second.mcpb"
    plugins.main(["--bundle", str(first)])
    plugins.main(["--bundle", str(second)])
    with zipfile.ZipFile(first) as bundle:
        bundle.extractall(tmp_path / "unpacked")

    entry_point = json.loads((tmp_path / "unpacked/manifest.json").read_bytes())["server"][
        "entry_point"
    ]
    program = "import engram.__main__, sys; print(engram.__main__.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(tmp_path / "unpacked/src")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert first.read_bytes() == second.read_bytes()
    assert Path(found) == tmp_path / "unpacked" / entry_point
