"""`engram connect`, `engram disconnect` and `engram doctor clients`: the configuration of MCP clients."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast
from urllib.parse import urlsplit

import typer

from engram.cli.invocation import FAILED, Invocation
from engram.cli.options import DryRun, read_text, shared_options
from engram.cli.output import print_line, print_notice, show_table, visible, visible_line
from engram.errors import ConfigurationError, InvalidRequestError

if TYPE_CHECKING:
    from engram.clients.checking import Problem
    from engram.clients.connecting import Change, Outlook, Refusal
    from engram.clients.machine import Machine
    from engram.clients.manifest import Manifest, Record
    from engram.clients.registry import Client, Scope
    from engram.clients.server import HookKind, Local, Program, Server
    from engram.settings import Settings


Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="CLIENT", help="Clients, as `engram connect` lists them."),
]
All = Annotated[bool, typer.Option("--all", help="Every client that was found here.")]
Connected = Annotated[bool, typer.Option("--all", help="Every client that was connected.")]
ScopeOption = Annotated[
    Literal["user", "project"],
    typer.Option(help="Whose configuration: yours, or that of the working directory."),
]
Url = Annotated[
    str | None, typer.Option(metavar="URL", help="Connect to this server, instead of over stdio.")
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="KEY",
        help="Key to write; - reads it. [default: the client takes ENGRAM_API_KEY]",
    ),
]


NoCapture = Annotated[
    bool, typer.Option("--no-capture", help="Without the hooks that store sessions.")
]
NoRecall = Annotated[
    bool, typer.Option("--no-recall", help="Without the hooks that remind agents.")
]


@shared_options
def connect(
    invocation: Invocation,
    names: Names = None,
    *,
    every: All = False,
    scope: ScopeOption = "user",
    url: Url = None,
    key: Key = None,
    no_capture: NoCapture = False,
    no_recall: NoRecall = False,
    dry_run: DryRun = False,
) -> None:
    """Enter Engram in the configuration of MCP clients.

    Examples:
      engram connect                       list what was found, change nothing
      engram connect claude-code codex
      engram connect --all --dry-run       show the changes as a diff
      engram connect cursor --scope project
      engram connect --all --url https://memory.example.org --key -

    Only the entry is written: all other text of a file stays byte for byte. What
    was there before is kept in the store's directory for `engram disconnect`.
    A file that cannot be parsed is left alone, and the text to paste is printed.
    Claude Code, Codex and Gemini CLI also get hooks, unless the scope is project:
    they capture sessions, and recall what a session or a prompt needs.
    """
    from engram.clients.connecting import plan_connection
    from engram.hooks.places import make_spool_directory

    settings = invocation.settings()
    machine, manifest = _machine(), _manifest(settings)
    off: dict[HookKind, bool] = {"capture": no_capture, "recall": no_recall}
    wanted: tuple[HookKind, ...] = tuple(kind for kind in off if not off[kind])
    server = _server(settings, url=url, key=key, hooks=wanted)
    if not names and not every:
        _list_clients(invocation, machine, server=server, manifest=manifest)
        return
    chosen = _chosen(names, every=every, machine=machine)
    with nullcontext() if dry_run else manifest.locked():
        outlooks = {
            client.name: plan_connection(
                client, machine, server=server, scope=scope, manifest=manifest
            )
            for client in chosen
        }
        _carry_out(outlooks, manifest=manifest, dry_run=dry_run)
    if wanted and scope == "user" and url is None and not dry_run:
        # An engine that finds it loads its models before the first prompt.
        make_spool_directory(str(settings.home.absolute()))
    _show(invocation, outlooks, dry_run=dry_run)


@shared_options
def disconnect(
    invocation: Invocation,
    names: Names = None,
    *,
    every: Connected = False,
    scope: ScopeOption = "user",
    dry_run: DryRun = False,
) -> None:
    """Take back what `engram connect` wrote.

    Examples:
      engram disconnect claude-code
      engram disconnect --all --dry-run
      engram disconnect cursor --scope project

    A file that nobody changed since is restored byte for byte, and removed if it
    was not there. From one that was changed only our entry is removed.
    """
    from engram.clients.connecting import plan_disconnection
    from engram.clients.registry import client_named

    manifest, machine = _manifest(invocation.settings()), _machine()
    if bool(names) == every:
        raise InvalidRequestError("name the clients to disconnect, or give --all")
    with nullcontext() if dry_run else manifest.locked():
        records = [each for each in manifest.records() if _is_meant(each, scope, machine)]
        known = {record.client for record in records}
        chosen = known if every else {client_named(name).name for name in names or ()}
        outlooks = {
            name: plan_disconnection(
                [record for record in records if record.client == name], manifest=manifest
            )
            for name in sorted(chosen)
        }
        _carry_out(outlooks, manifest=manifest, dry_run=dry_run)
    _show(invocation, outlooks, dry_run=dry_run)


def check_clients(invocation: Invocation) -> None:
    """Check every connected client, print what is wrong, and exit with 1 if something is."""
    from engram.clients.checking import check_client

    settings = invocation.settings()
    machine, records = _machine(), _manifest(settings).records()
    try:
        local = _local(settings)
    except ConfigurationError:
        local = None  # Clients of this store use a server.
    problems = [
        problem
        for record in records
        for problem in check_client(record, machine, local=local, again=_again(record, settings))
    ]
    answer = {"files": len(records), "problems": problems}
    invocation.show(answer, lambda: _print_problems(records, problems))
    if problems:
        raise SystemExit(FAILED)


def command_line(settings: Settings, *arguments: str) -> str:
    """Return a command that works when it is pasted into a shell, in whatever directory.

    Engram is named by its path if the shell would not find this one, and the store and its settings
    are if another process would use others.
    """
    import shutil

    from engram.settings import is_default_home

    program = _program()
    words = (program.command, *program.arguments)
    found = shutil.which("engram")
    if not program.arguments and found and Path(found).samefile(program.command):
        words = ("engram",)
    home = () if is_default_home(settings.home) else ("--home", str(settings.home.absolute()))
    return shlex.join([*_assignments(settings), *words, *arguments, *home])


def _assignments(settings: Settings) -> Sequence[str]:
    """Return what sets the variables that the store needs besides its directory."""
    from engram.clients.server import HOME_VARIABLE
    from engram.settings import lasting_variables

    try:
        variables = lasting_variables(settings)
    except ConfigurationError:
        return ()  # A secret is not printed.
    others = [f"{name}={value}" for name, value in variables.items() if name != HOME_VARIABLE]
    return ["env", *others] if others else ()


def _machine() -> Machine:
    from engram.clients.machine import Machine, Platform
    from engram.settings import foreign_variables

    platform = sys.platform if sys.platform in {"darwin", "win32"} else "linux"
    return Machine(
        platform=cast("Platform", platform),
        home=Path.home(),
        directory=Path.cwd(),
        environment=foreign_variables(),
    )


def _manifest(settings: Settings) -> Manifest:
    from engram.clients.manifest import Manifest

    return Manifest(settings.home.absolute())


def _program() -> Program:
    from engram import __version__
    from engram.clients.server import find_program, installed_requirement

    return find_program(
        Path(sys.argv[0]).absolute(),
        Path(sys.executable).absolute(),
        requirement=installed_requirement(__version__),
    )


def _local(settings: Settings, *, hooks: tuple[HookKind, ...] = ()) -> Local:
    from engram.clients.server import Local
    from engram.settings import lasting_variables

    return Local(program=_program(), environment=lasting_variables(settings), hooks=hooks)


def _server(
    settings: Settings, *, url: str | None, key: str | None, hooks: tuple[HookKind, ...]
) -> Server:
    from engram.clients.server import Remote

    if url is None:
        if key is not None:
            raise InvalidRequestError("a key needs --url: over stdio there is none", field="--key")
        return _local(settings, hooks=hooks)
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        raise InvalidRequestError("must begin with http:// or https://", field="--url")
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        print_notice(f"Warning: {url} is without TLS, so keys and memories can be read in transit.")
    base = url.rstrip("/")
    given = read_text(None).strip() if key == "-" else key
    return Remote(
        url=base if base.endswith("/mcp") else f"{base}/mcp", key=given, program=_program()
    )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False  # Another name than that.


def _chosen(names: Sequence[str] | None, *, every: bool, machine: Machine) -> Sequence[Client]:
    from engram.clients.registry import CLIENTS, client_named

    if names and every:
        raise InvalidRequestError("--all cannot be combined with names of clients")
    if not every:
        return [client_named(name) for name in dict.fromkeys(names or ())]
    return [client for client in CLIENTS if client.is_found(machine)]


def _is_meant(record: Record, scope: Scope, machine: Machine) -> bool:
    if record.scope != scope:
        return False
    return scope == "user" or Path(record.path).is_relative_to(machine.directory)


def _carry_out(outlooks: dict[str, Outlook], *, manifest: Manifest, dry_run: bool) -> None:
    from engram.clients.connecting import Refusal, carry_out

    if dry_run:
        return
    for outlook in outlooks.values():
        for change in () if isinstance(outlook, Refusal) else outlook:
            carry_out(change, manifest=manifest)


def _show(invocation: Invocation, outlooks: dict[str, Outlook], *, dry_run: bool) -> None:
    from engram.clients.connecting import Refusal

    answer = {
        "dry_run": dry_run,
        "clients": [_view(name, outlook) for name, outlook in outlooks.items()],
    }
    invocation.show(answer, lambda: _print_outlooks(outlooks, dry_run=dry_run))
    if any(isinstance(outlook, Refusal) for outlook in outlooks.values()):
        raise SystemExit(FAILED)


def _view(name: str, outlook: Outlook) -> dict[str, Any]:
    from engram.clients.connecting import Refusal

    if isinstance(outlook, Refusal):
        return {
            "client": name,
            "refused": outlook.reason,
            "path": str(outlook.path),
            "snippet": outlook.snippet,
        }
    return {
        "client": name,
        "files": [
            {
                "path": str(change.path),
                "outcome": change.outcome,
                "warnings": list(change.warnings),
                "diff": _diff(change),
            }
            for change in outlook
        ],
    }


def _print_outlooks(outlooks: dict[str, Outlook], *, dry_run: bool) -> None:
    from engram.clients.connecting import Refusal

    if not outlooks:
        print_notice("no client was found; `engram connect` lists those that are known")
    for name, outlook in outlooks.items():
        if isinstance(outlook, Refusal):
            _print_refusal(outlook)
            continue
        if not outlook:
            print_line(f"{name}: not connected")
        for change in outlook:
            if dry_run:
                print_line(visible(_diff(change)).rstrip("\n"))
            path = visible_line(str(change.path))
            print_line(
                f"{name}: {path} {'would be ' if dry_run else ''}{_SENTENCES[change.outcome]}"
            )
            for warning in change.warnings:
                print_notice(f"Warning: {path}: {warning}")


_SENTENCES = {
    "created": "created",
    "updated": "updated",
    "unchanged": "left as it is: the entry is there",
    "restored": "restored, byte for byte",
    "removed": "removed, as it was not there before",
    "edited": "edited: it was changed since, so only our entry is removed",
    "gone": "left as it is: no entry of ours is there any more",
}


def _print_refusal(refusal: Refusal) -> None:
    path = visible_line(str(refusal.path))
    print(
        f"error: {refusal.client}: {path} was not changed: {visible_line(refusal.reason)}",
        file=sys.stderr,
    )
    if refusal.snippet:
        print("Add this to it by hand:", file=sys.stderr)
        print(visible(refusal.snippet), file=sys.stderr)


_SECRET = re.compile(r"""(Bearer |ENGRAM_API_KEY["']?\s*[:=]\s*["']?)[^"'\s$\{]+""")
"""A key in the text of a file, and not the name of a variable that has one."""


def _diff(change: Change) -> str:
    """Return the change of a file as a unified diff, without keys."""
    import difflib

    def lines(content: bytes | None) -> list[str]:
        text = (content or b"").decode(errors="replace")
        return [f"{line}\n" for line in text.splitlines()]

    path = str(change.path)
    diff = difflib.unified_diff(lines(change.before), lines(change.after), path, path)
    return _SECRET.sub(r"\1…", "".join(diff))


def _list_clients(
    invocation: Invocation, machine: Machine, *, server: Server, manifest: Manifest
) -> None:
    from engram.clients.registry import CLIENTS

    found = [
        _state(client, machine, server=server, manifest=manifest)
        for client in CLIENTS
        if client.is_found(machine)
    ]
    others = [client.name for client in CLIENTS if not client.is_found(machine)]
    answer = {"found": found, "not_found": others}
    invocation.show(answer, lambda: _print_clients(found, others))


def _state(
    client: Client, machine: Machine, *, server: Server, manifest: Manifest
) -> dict[str, Any]:
    from engram.clients.connecting import Refusal, plan_connection

    path = client.file(machine)
    outlook: Outlook | str
    try:
        outlook = plan_connection(client, machine, server=server, scope="user", manifest=manifest)
    except InvalidRequestError as exc:
        outlook = str(exc)
    match outlook:
        case str():
            would = outlook
        case Refusal():
            would = f"not be changed: {outlook.reason}"
        case _:
            outcomes = {change.outcome for change in outlook}
            would = "nothing" if outcomes == {"unchanged"} else "write the entry"
    return {
        "client": client.name,
        "title": client.title,
        "path": str(path),
        "connected": manifest.find(path) is not None,
        "would": would,
    }


def _print_clients(found: Sequence[dict[str, Any]], others: Sequence[str]) -> None:
    rows = [
        (
            each["client"],
            "connected" if each["connected"] else "not connected",
            each["path"],
            each["would"],
        )
        for each in found
    ]
    if rows:
        show_table(("CLIENT", "STATE", "FILE", "CONNECTING WOULD"), rows)
    print_notice(f"not found here: {', '.join(others) or 'none'}")
    print_notice("nothing was changed; connect with `engram connect CLIENT…` or `--all`")


def _again(record: Record, settings: Settings) -> str:
    """Return the command that connects a client as it was connected before."""
    from engram.clients.edits import SetKey
    from engram.clients.registry import client_named
    from engram.clients.server import URL_VARIABLE, read_entry

    entries = [read_entry(edit.value) for edit in record.edits if isinstance(edit, SetKey)]
    urls = [entry.url or entry.environment.get(URL_VARIABLE) for entry in entries]
    url = next(filter(None, urls), None)
    remote = () if url is None else ("--url", url, *(("--key", "KEY") if record.has_key else ()))
    if record.scope == "user":
        return command_line(settings, "connect", record.client, *remote)
    depth = len(Path(client_named(record.client).project_file or "").parts)
    directory = Path(record.main).parents[depth - 1]
    line = command_line(settings, "connect", record.client, "--scope", "project", *remote)
    return f"cd {shlex.quote(str(directory))} && {line}"


def _print_problems(records: Sequence[Record], problems: Sequence[Problem]) -> None:
    wrong = {problem.path for problem in problems}
    for record in records:
        if record.path not in wrong:
            print_line(f"{record.client}: {visible_line(record.path)} is as it should be")
    for problem in problems:
        print_line(
            f"{problem.client}: {visible_line(problem.path)}: {visible_line(problem.problem)}"
        )
        print_line(f"  {visible_line(problem.remedy)}")
    if not records:
        print_notice("no client is connected; `engram connect` lists those that were found")
