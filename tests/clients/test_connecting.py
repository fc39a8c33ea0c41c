"""`engram connect` and `engram disconnect`: only our entry comes and goes, for every client."""

from __future__ import annotations

import json
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from engram.clients import jsonc, toml, yaml
from engram.clients.connecting import Refusal, carry_out, plan_connection
from engram.clients.edits import AddItem, WholeFile
from engram.clients.machine import Machine
from engram.clients.manifest import Manifest
from engram.clients.registry import CLIENTS, Client, FilePlan
from engram.clients.server import Local, Program, find_program, read_entry
from engram.clients.syntax import value_at
from engram.model.value import replace
from tests.clients.conftest import User

NAMES = [client.name for client in CLIENTS]
BY_NAME = {client.name: client for client in CLIENTS}
KEY = "engram_sk_live_0123456789"


def file_of(user: User, client: Client) -> Path:
    """Return the configuration file of a client."""
    return client.file(
        Machine(platform="linux", home=user.directory, directory=user.project, environment={})
    )


def write(path: Path, content: str | bytes, mode: int = 0o640) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


def entry_in(user: User, client: Client) -> Any:
    """Return our entry in the file of a client."""
    text = file_of(user, client).read_text()
    parse = {"json": jsonc.parse, "toml": toml.parse, "yaml": yaml.parse}[client.syntax]
    return value_at(parse(text), (*client.at, "engram"))


def samples_of(client: Client) -> dict[str, bytes]:
    """Return files as a user of the client may have them."""
    first, *_ = client.at
    other = {
        "json": f'{{ "zz":1,\n\t"{first}": {{\n\t\t"other": {{"command":"x"}}, // mine\n\t}},\n"a": [ ]}}',
        "toml": f'z = 1\n[{first}.other] # mine\ncommand = "x"\n\n[a]\n  b = [ 1,2 ]',
        "yaml": f"z: 1 # first\n{first}:\n    # mine\n    other:\n        cmd: x\na: [1,  2]",
    }[client.syntax]
    flat = {"json": '{"zz": 1}', "toml": "zz = 1\n", "yaml": "zz: 1\n"}[client.syntax]
    return {
        "written by hand": other.encode(),
        "with CRLF": other.replace("\n", "\r\n").encode(),
        "with a byte order mark": b"\xef\xbb\xbf" + other.encode(),
        "without our section": flat.encode(),
        "empty": b"",
        "blank": b"\n",
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sample", samples_of(CLIENTS[0]))
def test_disconnecting_restores_every_byte(user: User, name: str, sample: str) -> None:
    path = write(file_of(user, BY_NAME[name]), samples_of(BY_NAME[name])[sample])
    before = user.files()

    connected = user("connect", name, "--json").json
    during = path.read_bytes()
    user("disconnect", name)

    assert connected["clients"][0]["files"][0]["outcome"] == "updated"
    assert during != before[str(path.relative_to(user.directory.parent))][0]
    assert user.files() == before


@pytest.mark.parametrize("name", NAMES)
def test_a_client_without_a_file_gets_one_and_loses_it_again(user: User, name: str) -> None:
    connected = user("connect", name)
    entry = read_entry(entry_in(user, BY_NAME[name]))
    mode = stat.S_IMODE(file_of(user, BY_NAME[name]).stat().st_mode)
    again = user("connect", name, "--json").json
    user("disconnect", name)

    assert connected.status == 0
    assert Path(entry.command[0]).is_absolute()
    assert entry.command[-1] == "mcp"
    assert entry.environment["ENGRAM_HOME"] == str(user.home)
    assert mode == 0o600
    assert again["clients"][0]["files"][0]["outcome"] == "unchanged"
    assert list(user.directory.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_what_others_write_meanwhile_survives(user: User, name: str) -> None:
    client = BY_NAME[name]
    path = write(file_of(user, client), samples_of(client)["written by hand"])
    old, new = {
        "json": (b'"zz":1,', b'"zz":1, "new" : [0],'),
        "toml": (b"z = 1\n", b"z = 1\nnew = [ 0 ]\n"),
        "yaml": (b"z: 1 # first\n", b"z: 1 # first\nnew: [ 0 ]\n"),
    }[client.syntax]
    expected = path.read_bytes().replace(old, new)

    user("connect", name)
    path.write_bytes(path.read_bytes().replace(old, new))
    ended = user("disconnect", name)

    assert path.read_bytes() == expected
    assert "only our entry is removed" in ended.stdout


@pytest.mark.parametrize("name", [client.name for client in CLIENTS if client.project_file])
def test_a_project_can_be_connected_alone(user: User, name: str) -> None:
    user("connect", name, "--scope", "project")
    written = user.files()
    elsewhere = user("disconnect", "--all")
    user("disconnect", name, "--scope", "project")

    assert list(written) == [f"project/{BY_NAME[name].project_file}"]
    assert "no client" in elsewhere.stderr
    assert user.files() == {}
    assert list(user.project.iterdir()) == []


def test_a_client_without_projects_says_so(user: User) -> None:
    refused = user("connect", "goose", "--scope", "project")

    assert refused.status == 2
    assert "goose has no project scope" in refused.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_cannot_be_parsed_is_left_alone(user: User, name: str) -> None:
    path = write(file_of(user, BY_NAME[name]), b"{ [ unfinished: \x00")
    before = user.files()

    refused = user("connect", name)

    assert refused.status == 1
    assert user.files() == before
    assert f"{path} was not changed" in refused.stderr
    assert "engram" in refused.stderr.partition("by hand:")[2]


def test_a_dry_run_shows_the_difference_and_writes_nothing(user: User) -> None:
    write(user.directory / ".claude.json", '{\n  "mcpServers": {}\n}\n')
    before = user.files()

    shown = user("connect", "claude-code", "codex", "--dry-run")

    assert '+    "engram": {' in shown.stdout
    assert "+[mcp_servers.engram]" in shown.stdout
    assert user.files() == before
    assert not user.home.exists()


def test_without_a_client_it_lists_what_it_found_and_writes_nothing(user: User) -> None:
    write(user.directory / ".cursor" / "mcp.json", "{}")
    (user.directory / ".codex").mkdir()
    user("connect", "cursor")
    before = user.files()

    listed = user("connect", "--json").json

    assert {each["client"]: each["connected"] for each in listed["found"]} == {
        "codex": False,
        "cursor": True,
    }
    assert "zed" in listed["not_found"]
    assert user.files() == before


def test_a_program_on_the_path_is_enough_to_be_found(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "bin" / "opencode", "#!/bin/sh\n", mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    done = user("connect", "--all", "--json").json

    assert [each["client"] for each in done["clients"]] == ["opencode"]


@pytest.mark.parametrize(
    ("variable", "name", "file"),
    [
        ("CLAUDE_CONFIG_DIR", "claude-code", ".claude.json"),
        ("CODEX_HOME", "codex", "config.toml"),
        ("GEMINI_CLI_HOME", "gemini", ".gemini/settings.json"),
        ("XDG_CONFIG_HOME", "opencode", "opencode/opencode.json"),
        ("XDG_CONFIG_HOME", "zed", "zed/settings.json"),
        ("XDG_CONFIG_HOME", "vscode", "Code/User/mcp.json"),
        ("GOOSE_PATH_ROOT", "goose", "config/config.yaml"),
        ("COPILOT_HOME", "copilot", "mcp-config.json"),
    ],
)
def test_a_variable_of_the_client_moves_its_file(
    user: User, monkeypatch: pytest.MonkeyPatch, variable: str, name: str, file: str
) -> None:
    place = user.home.with_name("else")
    monkeypatch.setenv(variable, str(place))

    user("connect", name)

    assert (place / file).exists()
    assert user.files() == {}


@pytest.mark.parametrize(
    ("platform", "name", "file"),
    [
        (
            "darwin",
            "claude-desktop",
            "Library/Application Support/Claude/claude_desktop_config.json",
        ),
        ("win32", "claude-desktop", "AppData/Roaming/Claude/claude_desktop_config.json"),
        ("darwin", "vscode", "Library/Application Support/Code/User/mcp.json"),
        ("win32", "zed", "AppData/Roaming/Zed/settings.json"),
        ("darwin", "zed", ".config/zed/settings.json"),
        ("win32", "goose", "AppData/Roaming/Block/goose/config/config.yaml"),
    ],
)
def test_each_system_has_its_places(tmp_path: Path, platform: Any, name: str, file: str) -> None:
    machine = Machine(platform=platform, home=tmp_path, directory=tmp_path, environment={})

    assert BY_NAME[name].file(machine) == tmp_path / file


def test_a_link_is_followed_and_stays_a_link(user: User, tmp_path: Path) -> None:
    target = write(tmp_path / "dotfiles" / "cursor.json", '{"a": 1}\n', mode=0o644)
    link = user.directory / ".cursor" / "mcp.json"
    link.parent.mkdir()
    link.symlink_to(target)

    user("connect", "cursor")
    during = json.loads(target.read_text())
    user("disconnect", "cursor")

    assert during["mcpServers"]["engram"]
    assert link.is_symlink()
    assert target.read_text() == '{"a": 1}\n'
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


def test_an_entry_of_the_users_own_comes_back(user: User) -> None:
    own = '{"mcpServers": {"engram":   {"command": "mine"}}}'
    path = write(user.directory / ".cursor" / "mcp.json", own)

    connected = user("connect", "cursor")
    path.write_bytes(path.read_bytes() + b"\n")
    user("disconnect", "cursor")

    assert "another entry mcpServers.engram" in connected.stderr
    assert path.read_text() == own + "\n"


def test_another_store_takes_the_entry_over_with_the_original(user: User, tmp_path: Path) -> None:
    path = write(user.directory / ".cursor" / "mcp.json", '{ "a":1 }')
    user("connect", "cursor")

    user("connect", "cursor", "--home", str(tmp_path / "second"))
    during = entry_in(user, BY_NAME["cursor"])
    first = user("disconnect", "cursor")
    second = user("disconnect", "cursor", "--home", str(tmp_path / "second"))

    assert during["env"]["ENGRAM_HOME"] == str(tmp_path / "second")
    assert "not connected" in first.stdout
    assert "restored, byte for byte" in second.stdout
    assert path.read_text() == '{ "a":1 }'


def test_an_entry_that_another_store_wrote_over_ours_stays(user: User, tmp_path: Path) -> None:
    path = write(user.directory / ".cursor" / "mcp.json", '{ "a":1 }')
    user("connect", "cursor")
    path.write_text(path.read_text().replace(str(user.home), str(tmp_path / "second")))
    before = path.read_text()

    left = user("disconnect", "cursor")

    assert f"belongs to the store in {tmp_path / 'second'}" in left.stderr
    assert path.read_text() == before


def test_settings_of_the_store_go_with_it_but_no_secret(user: User) -> None:
    user("connect", "cursor", embedder="hash")
    refused = user("connect", "codex", database_url="postgresql://user:secret@host/db")

    entry = entry_in(user, BY_NAME["cursor"])
    assert entry["env"]["ENGRAM_EMBEDDER"] == "hash"
    assert refused.status == 2
    assert "engram.toml" in refused.stderr
    assert "secret" not in refused.stderr
    assert not (user.directory / ".codex").exists()


@pytest.mark.parametrize("name", NAMES)
def test_a_key_is_written_only_where_others_cannot_read_it(user: User, name: str) -> None:
    url = ("--url", "http://127.0.0.1:8788")
    new = user("connect", name, *url, "--key", KEY)
    entry = entry_in(user, BY_NAME[name])
    mode = stat.S_IMODE(file_of(user, BY_NAME[name]).stat().st_mode)
    user("disconnect", name)
    write(
        file_of(user, BY_NAME[name]), samples_of(BY_NAME[name])["without our section"], mode=0o644
    )

    existing = user("connect", name, *url, "--key", "-", stdin=f"{KEY}\n")
    shown = user("connect", name, "--dry-run", *url, "--key", f"{KEY}9")
    taken_back = user("disconnect", name, "--dry-run", "--json")

    assert KEY in json.dumps(entry)
    assert mode == 0o600
    assert "Warning" not in new.stderr
    assert "other users of this machine can read it" in existing.stderr
    assert KEY not in shown.stdout + taken_back.stdout


def test_what_is_kept_of_a_file_is_its_owners_alone(user: User) -> None:
    write(user.directory / ".cursor" / "mcp.json", '{"token": "of another server"}', mode=0o644)

    user("connect", "cursor")

    kept = user.home / "clients"
    [original] = (kept / "originals").iterdir()
    assert original.read_text() == '{"token": "of another server"}'
    assert [stat.S_IMODE(path.stat().st_mode) for path in (kept, original)] == [0o700, 0o600]
    user("disconnect", "cursor")
    assert list((kept / "originals").iterdir()) == []


def test_a_key_that_would_cross_the_network_in_the_clear_is_warned_of(user: User) -> None:
    far = user("connect", "cursor", "--url", "http://memory.example.org", "--key", KEY)
    near = user("connect", "cursor", "--url", "http://[::1]:8788", "--key", KEY)

    assert "without TLS" in far.stderr
    assert "without TLS" not in near.stderr


@pytest.mark.parametrize("name", NAMES)
def test_without_a_key_the_client_is_told_the_variable_or_needs_one(user: User, name: str) -> None:
    client = BY_NAME[name]

    done = user("connect", name, "--url", "https://memory.example.org/")

    if client.needs_key:
        assert done.status == 2
        assert "--key" in done.stderr
        assert user.files() == {}
    else:
        text = file_of(user, client).read_text()
        assert "https://memory.example.org/mcp" in text
        assert "ENGRAM_API_KEY" in text or "engram-api-key" in text
        user("disconnect", name)
        assert user.files() == {}


def test_changing_between_http_and_stdio_leaves_nothing_of_the_other(user: User) -> None:
    path = write(user.directory / ".config/Code/User/mcp.json", '{"inputs": [ 1 ]}')

    user("connect", "vscode", "--url", "http://127.0.0.1:8788")
    over_http = json.loads(path.read_text())
    user("connect", "vscode")
    over_stdio = json.loads(path.read_text())
    user("disconnect", "vscode")

    assert len(over_http["inputs"]) == 2
    assert over_stdio["inputs"] == [1]
    assert set(over_stdio["servers"]["engram"]) == {"type", "command", "args", "env"}
    assert path.read_text() == '{"inputs": [ 1 ]}'


def test_nothing_is_written_that_could_not_be_taken_back(user: User) -> None:
    write(user.directory / ".cursor" / "mcp.json", "{}")
    write(user.home, "no directory")
    before = user.files()

    refused = user("connect", "cursor")

    assert refused.status == 2
    assert f"{user.home}/clients" in refused.stderr
    assert user.files() == before


def test_names_and_options_that_make_no_sense_are_refused(user: User) -> None:
    for arguments in (
        ("connect", "clyde"),
        ("connect", "cursor", "--all"),
        ("connect", "cursor", "--key", KEY),
        ("connect", "cursor", "--url", "memory.example.org"),
        ("disconnect",),
        ("disconnect", "cursor", "--all"),
    ):
        assert user(*arguments).status == 2, arguments
    assert user.files() == {}


def test_the_program_is_the_one_that_runs(tmp_path: Path) -> None:
    python = write(tmp_path / "venv/bin/python", "")
    nothing = find_program(tmp_path / "x.py", python, requirement="engram==1.2")
    script = write(tmp_path / "venv/bin/engram", "")
    cached = write(tmp_path / ".cache/uv/archive-v0/abc/bin/engram", "")
    once = write(tmp_path / ".cache/pipx/abc/bin/engram", "")

    assert nothing == Program(command=str(python), arguments=("-m", "engram"))
    assert find_program(script, python, requirement="engram==1.2") == Program(command=str(script))
    assert find_program(tmp_path / "pytest", python, requirement="engram==1.2") == Program(
        command=str(script)
    )
    runner = find_program(cached, python, requirement="engram==1.2")
    assert (Path(runner.command).name, runner.arguments[:2]) == ("uvx", ("--from", "engram==1.2"))
    runner = find_program(once, python, requirement="engram==1.2")
    assert (Path(runner.command).name, runner.arguments[0]) == ("pipx", "run")
    assert runner.arguments[-2:] == ("engram==1.2", "engram")


def test_the_line_that_a_new_key_prints_works_from_any_directory(user: User) -> None:
    (user.directory / ".cursor").mkdir()
    created = user("keys", "create", "laptop")
    line = created.stderr.strip().splitlines()[-1].partition(": ")[2]

    user.shell(line)

    entry = entry_in(user, BY_NAME["cursor"])
    assert entry["url"] == "http://127.0.0.1:8788/mcp"
    assert created.stdout.strip() not in created.stderr
    assert user("disconnect", "cursor").stdout.endswith("as it was not there before\n")


def test_many_at_once_lose_nothing(user: User) -> None:
    names = ["cursor", "codex", "goose", "zed"]
    with ExitStack() as stack:
        started = [stack.enter_context(user.start("connect", name)) for name in names]
        ended = [process.wait() for process in started]

    noted = json.loads((user.home / "clients" / "manifest.json").read_text())
    assert ended == [0] * len(names)
    assert {each["client"] for each in noted["records"]} == set(names)
    user("disconnect", "--all")
    assert user.files() == {}


def test_every_client_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "clients.md").read_text()

    for client in CLIENTS:
        [row] = [line for line in page.splitlines() if line.startswith(f"| {client.title} |")]
        assert f"| `{client.name}` |" in row
        assert client.at[0] in row
        assert f"`{client.project_file}`" in row if client.project_file else "| none |" in row


@pytest.mark.parametrize("before", [None, '{\n  "hooks": {"Stop": [ 1 ]}, // mine\n}'])
@pytest.mark.parametrize("is_touched", [False, True])
def test_further_files_and_items_of_a_client_come_and_go_with_it(
    user: User, before: str | None, *, is_touched: bool
) -> None:
    machine = Machine(platform="linux", home=user.directory, directory=user.project, environment={})
    settings = machine.home / ".gemini" / "settings.json"
    hooks = tuple(
        AddItem(at=("hooks", event), value={"command": f"engram hook {event}"}, mark="engram hook")
        for event in ("Start", "Stop")
    )
    plugin = FilePlan(path=machine.home / "p.js", syntax="text", edits=(WholeFile(content="x"),))

    def more(*_: object) -> tuple[FilePlan, ...]:
        return FilePlan(path=settings, syntax="json", edits=hooks), plugin

    client = replace(BY_NAME["gemini"], more=more)
    if before is not None:
        write(settings, before)
    original = user.files()
    manifest = Manifest(user.home)
    server = Local(program=Program(command="/engram"), environment={"ENGRAM_HOME": str(user.home)})

    with manifest.locked():
        planned = plan_connection(client, machine, server=server, scope="user", manifest=manifest)
        assert not isinstance(planned, Refusal)
        for change in planned:
            carry_out(change, manifest=manifest)
    during = jsonc.parse(settings.read_text())
    if is_touched:
        settings.write_text(settings.read_text() + "\n")
    ended = user("disconnect", "gemini")

    assert during["hooks"]["Stop"][-1] == {"command": "engram hook Stop"}
    assert ended.status == 0
    if is_touched and before is not None:
        assert settings.read_text() == before + "\n"
    else:
        assert user.files() == original
