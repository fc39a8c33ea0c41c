"""The session in the README works exactly as it is printed there."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from engram.cli.serve import CONNECT_HEADING
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


def said_in_terminal(home: Path) -> str:
    """Return what a server prints on a terminal at its first start, without colours."""
    terminal, child = pty.openpty()
    environment = {"ENGRAM_HOME": str(home), "ENGRAM_EMBEDDER": "local", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "engram", "serve", "--port", "0"],
        env={**os.environ, **environment},  # noqa: TID251 as a user's shell does
        stdout=child,
        stderr=subprocess.DEVNULL,
    )
    os.close(child)
    try:
        with os.fdopen(terminal, encoding="utf-8") as shown:
            lines = list(iter(shown.readline, f"{CONNECT_HEADING}\n"))
            return "".join([*lines, CONNECT_HEADING, "\n", shown.readline()])
    finally:
        process.terminate()
        process.wait(30)


def test_the_first_start_prints_what_the_readme_says(tmp_path: Path) -> None:
    (start, greeting), *_ = console_blocks()

    said = said_in_terminal(tmp_path / "store")

    (url,) = re.findall(r"is listening on (\S+)", said)
    assert start == "make serve"
    assert matches(said, greeting.replace(ADDRESS, url))
    assert not (tmp_path / "store" / "first-key").exists()


def test_the_session_prints_what_the_readme_says(database_url: str) -> None:
    _, *session = console_blocks()

    with running_server(EMBEDDER="local") as server:
        key = (server.home / "first-key").read_text().strip()
        environment = {
            **os.environ,  # noqa: TID251 the commands run as a user's do
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",  # noqa: TID251 as above
            "ENGRAM_HOME": str(server.home),
            "ENGRAM_EMBEDDER": "local",
            "ENGRAM_API_KEY": key,
        }

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
