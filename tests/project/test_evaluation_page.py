"""The page on evaluation shows a set that can be measured, and what is printed for it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.cli.commands import Engram

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "evaluation.md").read_text()
CHATS = ROOT / "docs_src" / "chats.jsonl"


def test_the_set_on_the_page_is_the_file_it_names() -> None:
    [shown] = re.findall(r"^```json\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)

    assert shown == CHATS.read_text()


def test_the_figures_on_the_page_are_those_of_the_set(tmp_path: Path) -> None:
    [shown] = re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    command, *expected = shown.splitlines()

    printed = Engram(tmp_path)("eval", str(CHATS), embedder="none").stdout

    assert command == f"$ engram eval {CHATS.relative_to(ROOT)}"
    lines = [line.rstrip() for line in printed.splitlines()]
    assert [] == [line for line in expected if line != "…" and line not in lines]


def test_every_figure_is_explained(tmp_path: Path) -> None:
    printed = Engram(tmp_path)("eval", str(CHATS), "--json", embedder="none").json

    [measured] = printed["sets"]
    kinds = {figure.partition("@")[0] for figure in measured["quality"] | measured["costs"]}
    assert [] == [kind for kind in kinds if f"`{kind}" not in PAGE]
