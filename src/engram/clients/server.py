"""The server that a client is given: a command that it starts, or a URL."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Literal, cast

from engram.model.value import Value

NAME = "engram"
"""The name of the entry in every client."""

KEY_VARIABLE = "ENGRAM_API_KEY"
"""The variable that clients read the key from, where they can and no key is given."""

HOME_VARIABLE = "ENGRAM_HOME"
URL_VARIABLE = "ENGRAM_URL"


HookKind = Literal["capture", "recall"]


class Program(Value):
    """How this Engram is started, from whatever directory and with whatever PATH."""

    command: str
    arguments: tuple[str, ...] = ()


class Local(Value):
    """A process that the client starts and speaks with over stdin and stdout."""

    program: Program
    environment: dict[str, str]
    hooks: tuple[HookKind, ...] = ()
    """What the client does by itself at its events, if it has any."""

    @property
    def arguments(self) -> list[str]:
        """What follows the command."""
        return [*self.program.arguments, "mcp"]


class Remote(Value):
    """A running server, at its MCP endpoint; without a key the client is told the variable with it."""

    url: str
    key: str | None
    program: Program
    """The relay for clients that know no URLs."""

    def bearer(self, reference: str) -> dict[str, str]:
        """Return the header with the key, or with the client's way to name the variable."""
        return {"Authorization": f"Bearer {self.key or reference}"}

    @property
    def relay(self) -> Local:
        """The local process that relays to the server."""
        key = {} if self.key is None else {KEY_VARIABLE: self.key}
        base = self.url.removesuffix("/mcp")
        return Local(program=self.program, environment={URL_VARIABLE: base, **key})


Server = Local | Remote

_SHORT_LIVED = {
    # A directory of the cache, by the first part of its name, and what makes it anew.
    "archive-v": ("uvx", "--from"),
    "environments-v": ("uvx", "--from"),
    "pipx": ("pipx", "run", "--spec"),
}


def find_program(script: Path, interpreter: Path, *, requirement: str) -> Program:
    """Return how the running Engram is started: its script, else the module of its interpreter.

    An environment that `uvx` or `pipx run` made in their cache may be gone tomorrow: there it is the
    command that makes it again, of the same `requirement`.
    """
    suffix = ".exe" if interpreter.suffix == ".exe" else ""
    beside = interpreter.parent / f"engram{suffix}"
    is_script = script.stem == "engram" and script.is_absolute() and script.is_file()
    found = script if is_script else beside if beside.is_file() else None
    if runner := _runner_of(found or interpreter):
        command, *arguments = runner
        return Program(
            command=shutil.which(command) or command, arguments=(*arguments, requirement, "engram")
        )
    if found is None:
        return Program(command=str(interpreter), arguments=("-m", "engram"))
    return Program(command=str(found))


def _runner_of(path: Path) -> Sequence[str]:
    """Return the command that makes an environment in a cache, or nothing if it is in none."""
    names = {part.strip(".").lower() for part in path.parts}
    if not names & {"cache", "caches"}:
        return ()
    starts = (start for part in path.parts for start in _SHORT_LIVED if part.startswith(start))
    return next((_SHORT_LIVED[start] for start in starts), ())


def installed_requirement(version: str) -> str:
    """Return what to ask an installer for to get this Engram: from where it came, else by version."""
    try:
        origin = distribution("engram").read_text("direct_url.json")
    except PackageNotFoundError:
        origin = None
    if origin is None:
        return f"engram=={version}"
    direct = json.loads(origin)
    source = direct.get("vcs_info")
    if source is None:
        return f"engram @ {direct['url']}"
    return f"engram @ {source['vcs']}+{direct['url']}@{source['commit_id']}"


class ServerEntry(Value):
    """An entry of a client's file, whatever the client's names for its parts are."""

    command: tuple[str, ...]
    environment: dict[str, str]
    url: str | None
    headers: dict[str, str]


def read_entry(entry: object) -> ServerEntry:
    """Return the parts of an entry; what is not there, or not as it should be, is empty."""
    found = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    command = _first(found, "command", "cmd")
    words = [command] if isinstance(command, str) else command
    url = _first(found, "url", "serverUrl", "uri")
    token = found.get("bearer_token_env_var")
    bearer = {"Authorization": f"Bearer ${{{token}}}"} if isinstance(token, str) else {}
    return ServerEntry(
        command=(*_texts(words), *_texts(found.get("args"))),
        environment=_variables(_first(found, "env", "environment", "envs")),
        url=url if isinstance(url, str) else None,
        headers={**bearer, **_variables(_first(found, "headers", "http_headers"))},
    )


def home_in(entry: object) -> str | None:
    """Return the store's directory that an entry names, or None."""
    return read_entry(entry).environment.get(HOME_VARIABLE)


def _first(entry: Mapping[str, object], *names: str) -> object:
    return next((entry[name] for name in names if name in entry), None)


def _texts(value: object) -> list[str]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [each for each in items if isinstance(each, str)]


def _variables(value: object) -> dict[str, str]:
    items = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return {name: each for name, each in items.items() if isinstance(each, str)}
