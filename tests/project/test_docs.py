"""What a user can meet is documented."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from engram import limits
from engram.cli.maintenance import read_limits
from engram.mcp.resources import PROMPTS
from engram.mcp.tools import TOOLS
from engram.settings import PREFIX, all_settings
from tools import docs

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


SOURCE = Path(__file__).parents[2] / "src" / "engram"


def undocumented(names: Iterable[str], *, page: str) -> list[str]:
    text = (REFERENCE / page).read_text()
    return [name for name in names if f"`{name}`" not in text]


def test_every_limit_is_documented_with_its_reason() -> None:
    names = {name for name in vars(limits) if name.isupper()}

    assert names == {name for name, _, reason in read_limits() if reason}
    assert [] == undocumented(names, page="limits.md")


def test_every_error_code_is_documented() -> None:
    codes = [error.code for error in docs.all_errors()]

    assert [] == undocumented(codes, page="errors.md")


def test_no_two_errors_share_a_code() -> None:
    codes = [error.code for error in docs.all_errors()]

    assert len(codes) == len(set(codes))


def test_every_setting_is_documented_with_a_description() -> None:
    assert [] == [name for name, setting in all_settings().items() if not setting.description]
    assert [] == undocumented(
        (PREFIX + name.upper() for name in all_settings()), page="settings.md"
    )


def test_every_code_of_a_refused_http_request_is_documented() -> None:
    rooms = SOURCE / "http", SOURCE / "mcp", SOURCE / "bodies"
    source = "".join(path.read_text() for room in rooms for path in room.rglob("*.py"))
    codes = re.findall(r"""(?:HttpError|_plain)\(\s*\w+,\s*"(\w+)\"""", source)
    codes += re.findall(r"""\bcode="(\w+)\"""", source)

    assert codes
    assert [] == undocumented(codes, page="errors.md")


def test_every_command_is_documented() -> None:
    assert [] == undocumented(docs.all_commands(), page="commands.md")


def test_every_tool_and_each_of_its_arguments_is_documented() -> None:
    assert [] == undocumented((tool.name for tool in TOOLS), page="mcp.md")
    arguments = [name for tool in TOOLS for name in tool.input_schema["properties"]]
    assert [] == undocumented(arguments, page="mcp.md")
    assert [] == undocumented((prompt.name for prompt in PROMPTS), page="mcp.md")


def seed_tools() -> dict[str, set[str]]:
    """Return the tools that the page on the seeds lists, with their statuses."""
    page = (REFERENCE.parent / "seed-tools.md").read_text()
    statuses: dict[str, set[str]] = {}
    for row in re.findall(r"^\| (`.+?`) \| (\w+) \|", page, re.MULTILINE):
        for name in re.findall(r"`(\w+)`", row[0]):
            statuses.setdefault(name, set()).add(row[1])
    return statuses


def test_every_tool_is_listed_among_those_of_the_seeds_with_its_status() -> None:
    statuses = seed_tools()
    offered = {name for name, known in statuses.items() if known & {"same", "more", "own"}}

    assert offered == {tool.name for tool in TOOLS}
    assert set().union(*statuses.values()) == {"same", "more", "own", "planned", "elsewhere", "no"}
