"""The session in the README works exactly as it is printed there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.server import running_server

ROOT = Path(__file__).parents[2]
ADDRESS = "http://127.0.0.1:8788"


def console_blocks() -> Iterator[tuple[str, str]]:
    """Yield each command of the README and what it is said to print; `…` stands for anything."""
    text = (ROOT / "README.md").read_text()
    for block in re.findall(r"^```console\n\$ (.*?)^```", text, re.DOTALL | re.MULTILINE):
        lines = block.splitlines()
        # The command goes on while its quotes are open or its line ends with a backslash.
        end = next(i for i in range(len(lines)) if is_complete("\n".join(lines[: i + 1])))
        yield "\n".join(lines[: end + 1]), "\n".join(lines[end + 1 :])


def is_complete(command: str) -> bool:
    return command.count("'") % 2 == 0 and not command.endswith("\\")


def matches(printed: str, expected: str) -> bool:
    pattern = ".*".join(map(re.escape, expected.strip().split("…")))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def database_of(command: str, url: str) -> dict[str, str]:
    """Return the variable that the README sets before it moves the store to PostgreSQL."""
    return {"ENGRAM_DATABASE_URL": url} if command.startswith("engram migrate") else {}


def test_the_session_prints_what_the_readme_says(database_url: str) -> None:
    (start, greeting), *session = console_blocks()

    with running_server(EMBEDDER="local") as server:
        said = server.log.read_text()
        key = re.search(r"engram_sk_live_\S+", said)
        assert key is not None
        environment = {
            **os.environ,  # noqa: TID251 the commands run as a user's do
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # noqa: TID251 as above
            "ENGRAM_HOME": str(server.home),
            "ENGRAM_EMBEDDER": "local",
            "ENGRAM_API_KEY": key[0],
        }

        assert start == "make serve"
        assert matches(said, greeting.replace(ADDRESS, server.url))
        for command, expected in session:
            done = subprocess.run(
                ["bash", "-c", command.replace(ADDRESS, server.url)],
                cwd=ROOT,
                env=environment | database_of(command, database_url),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=True,
            )
            assert matches(done.stdout, expected), done.stdout
