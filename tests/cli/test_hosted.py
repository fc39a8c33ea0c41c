"""Commands that the running engine runs for a thin client: the same output, whatever happens to either."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from engram.api.table import OPERATIONS
from engram.cli.thin import HOSTED, run_thin
from engram.engine.address import address_of
from engram.engine.commands import HELLO, STDOUT, CommandCall, Outcome, Stream, run_in_engine
from engram.engine.launch import ask_engine, find_engine
from engram.errors import UnavailableError
from engram.settings import load_settings
from tests.cli.commands import DEADLINE_S, Engram
from tests.cli.test_processes import imported_by

Run = Callable[..., tuple[int | None, str, str]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Engram]:
    """Yield a store with an engine; its tests change nothing that another one reads."""
    engram = Engram(tmp_path_factory.mktemp("served") / "store")
    engram("conversations", "append", "The demo is on Friday, in the room by the river")
    engram("conversations", "create", "--title", "Lisbon", "--tag", "travel")
    engram("notes", "add", "The staging database is reset every Monday", "--tag", "infra")
    engram("memories", "store", "We chose SQLite", "--type", "decision")
    with running_engine(engram):
        yield engram


@contextmanager
def running_engine(engram: Engram) -> Generator[subprocess.Popen[bytes]]:
    with engram.start("engine", "run", engine_idle="600") as process:
        settled = threading.Event()
        while ask_engine(address_of(settings_of(engram))) is None:
            assert process.poll() is None
            settled.wait(0.02)
        try:
            yield process
        finally:
            process.terminate()


def settings_of(engram: Engram):
    return load_settings({"home": engram.home, "embedder": "none"}, environment={})


@pytest.fixture
def thin(served: Engram, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Return what runs a command in the engine: its status, None if it declined, and its output."""
    monkeypatch.setenv("ENGRAM_HOME", str(served.home))
    monkeypatch.setenv("ENGRAM_EMBEDDER", "none")

    def run(*arguments: str) -> tuple[int | None, str, str]:
        capfd.readouterr()
        status = run_thin(arguments)
        written = capfd.readouterr()
        return status, written.out, written.err

    return run


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "demo"),
        ("search", "demo", "--json"),
        ("search", "demo", "--explain", "--limit", "1"),
        ("search", "nothing like it"),
        ("conversations", "list"),
        ("conversations", "show", "conv_unknown"),
        ("conversations", "show", "conv_unknown", "--json"),
        ("notes", "list"),
        ("notes", "context", "staging"),
        ("notes", "remove", "mem_unknown", "--yes"),
        ("memories", "list"),
        ("memories", "recall", "which database?"),
        ("documents", "list"),
        ("orgs", "list"),
        ("status",),
        ("status", "--json"),
        ("search",),
        ("search", "demo", "--limit", "many"),
        ("search", "demo", "--since", "soon"),
        ("search", "demo", "--since", "soon", "--json"),
        ("search", "demo", "--wrong"),
    ],
)
def test_the_engine_says_what_the_command_says_itself(
    served: Engram, thin: Run, arguments: tuple[str, ...]
) -> None:
    status, stdout, stderr = thin(*arguments)

    alone = served(*arguments, engine_idle="0")
    assert (status, stdout, stderr) == (alone.status, alone.stdout, alone.stderr)


@pytest.mark.parametrize("arguments", [("--help",), ("notes", "list", "-h")])
def test_the_help_of_the_engine_is_that_of_the_command(
    served: Engram, thin: Run, arguments: tuple[str, ...]
) -> None:
    alone = served.process(*arguments, engine_idle="0")

    assert thin(*arguments) == (alone.status, alone.stdout, alone.stderr)


def test_every_command_of_an_operation_and_the_daily_ones_go_to_the_engine() -> None:
    made = {operation.command.words for operation in OPERATIONS if operation.command}
    written = {("status",), ("conversations", "append"), ("notes", "add")}

    assert made | written | {("--help",), ("-h",)} == HOSTED


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor",),
        ("version",),
        ("serve",),
        ("documents", "add", "file"),
        ("search", "demo", "--debug"),
        ("conversations", "append"),
        ("conversations", "append", "\udcff"),
        ("conversations", "delete", "conv_unknown", "--forever"),
        ("status", "--home", "elsewhere"),
        ("status", "--home=elsewhere"),
    ],
)
def test_what_needs_this_process_runs_in_it(thin: Run, arguments: tuple[str, ...]) -> None:
    assert thin(*arguments) == (None, "", "")


def test_a_client_with_other_settings_runs_alone(
    thin: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_EMBEDDER", "hash")

    assert thin("search", "demo") == (None, "", "")


def test_the_directory_is_shown_as_it_was_given(
    served: Engram, thin: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(served.home.parent)

    status, stdout, _ = thin("status", "--home", served.home.name)

    assert status == 0
    assert f"store {served.home.name}\n" in stdout


def call_of(engram: Engram, *arguments: str, columns: int = 80, is_terminal: bool = False):
    stream = Stream(is_terminal=is_terminal, encoding="utf-8", errors="strict")
    return CommandCall(
        arguments=arguments,
        home=None,
        place=str(engram.home),
        columns=columns,
        allows_color=is_terminal,
        stdout=stream,
        stderr=stream,
    )


def in_engine(engram: Engram, call: CommandCall) -> Outcome:
    link = find_engine(address_of(settings_of(engram)), HELLO)
    assert link is not None
    outcome = run_in_engine(link, call)
    assert outcome is not None
    return outcome


def test_the_output_is_made_for_the_terminal_of_the_client(served: Engram) -> None:
    plain = in_engine(served, call_of(served, "search", "demo"))
    narrow = in_engine(served, call_of(served, "search", "demo", columns=30, is_terminal=True))

    text = b"".join(data for _, data in narrow.parts)
    assert b"\x1b[" not in b"".join(data for _, data in plain.parts)
    assert b"\x1b[1m" in text
    assert b"The demo is on Friday, in\n    the room by the river\n" in text


def test_commands_that_run_at_once_keep_their_outputs_apart(served: Engram) -> None:
    queries = ["demo", "staging", "sqlite"] * 4
    outcomes = dict[int, Outcome]()

    def ask(number: int, query: str) -> None:
        outcomes[number] = in_engine(served, call_of(served, "search", query, "--json"))

    threads = [threading.Thread(target=ask, args=each) for each in enumerate(queries)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)

    for number, query in enumerate(queries):
        answers = [data for descriptor, data in outcomes[number].parts if descriptor == STDOUT]
        (result,) = json.loads(b"".join(answers))["results"]
        assert query in json.dumps(result).lower()


def test_a_client_of_the_engine_imports_no_parser_and_no_store(served: Engram) -> None:
    imported = imported_by(served, "search", "demo")

    assert not {"typer", "pydantic", "rich", "sqlite3", "asyncio", "numpy"} & imported


def test_text_from_stdin_is_stored_once(served: Engram) -> None:
    appended = served.process(
        "conversations", "append", "--json", stdin=b"a kingfisher", engine_idle="600"
    ).json
    shown = served("conversations", "show", appended["conversation_id"], "--json").json

    assert [each["content"] for each in shown["messages"]].count("a kingfisher") == 1


def test_a_reader_that_leaves_is_no_error(served: Engram) -> None:
    with served.start("search", "--help") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        complaint = process.stderr.read()

    assert (process.returncode, complaint) == (1, b"")


class FakeEngine(threading.Thread):
    """Takes one command on the engine's socket, and does with it what a test wants."""

    def __init__(self, engram: Engram, answer: bytes) -> None:
        super().__init__(daemon=True)
        self.asked = threading.Event()
        self.released = threading.Event()
        self._answer = answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(address_of(settings_of(engram)).socket))
        self._listener.listen()
        self.start()

    def run(self) -> None:
        link, _ = self._listener.accept()
        with self._listener, link, link.makefile("rb") as lines:
            lines.readline()
            link.sendall(b'{"engine": 1}\n')
            lines.readline()
            # Sent first: whoever waits for the question may let the other end leave.
            link.sendall(self._answer)
            self.asked.set()
            self.released.wait(DEADLINE_S)

    def die(self) -> None:
        self.released.set()
        self.join(DEADLINE_S)


def test_a_read_whose_engine_dies_runs_again_here(engram: Engram) -> None:
    engram("conversations", "append", "The demo is on Friday")
    engine = FakeEngine(engram, b'{"status": 0, "parts": [[1, 100]]}\nThe demo')

    with engram.start("search", "demo") as process:
        assert engine.asked.wait(DEADLINE_S)
        engine.die()
        stdout, _ = process.communicate()

    assert process.returncode == 0
    assert stdout.count(b"The demo") == 1


def test_a_write_whose_engine_dies_is_not_repeated(engram: Engram) -> None:
    engine = FakeEngine(engram, b'{"writes": true}\n')

    with engram.start("notes", "add", "The demo is on Friday") as process:
        assert engine.asked.wait(DEADLINE_S)
        engine.die()
        _, stderr = process.communicate()

    assert process.returncode == 1
    assert stderr.startswith(b"error: unavailable: the engine ended")
    assert engram("notes", "list", "--json").json["entries"] == []


def test_a_write_whose_engine_dies_before_it_began_runs_here(engram: Engram) -> None:
    engine = FakeEngine(engram, b"")

    with engram.start("notes", "add", "The demo is on Friday") as process:
        assert engine.asked.wait(DEADLINE_S)
        engine.die()
        process.communicate()

    assert process.returncode == 0
    assert len(engram("notes", "list", "--json").json["entries"]) == 1


def test_an_engine_that_fails_in_a_write_does_not_let_the_client_repeat_it(
    engram: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_HOME", str(engram.home))
    monkeypatch.setenv("ENGRAM_EMBEDDER", "none")
    engine = FakeEngine(engram, b'{"writes": true}\n{"declined": true}\n')

    with pytest.raises(UnavailableError):
        run_thin(["notes", "add", "The demo is on Friday"])
    engine.die()


def test_interrupting_a_client_is_quiet(engram: Engram) -> None:
    engine = FakeEngine(engram, b"")

    with engram.start("search", "demo") as process:
        assert engine.asked.wait(DEADLINE_S)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate()
    engine.die()

    assert (process.returncode, stderr) == (130, b"")


def test_a_server_of_several_processes_runs_commands_too(engram: Engram) -> None:
    with engram.start("serve", "--workers", "2", "--port", "0") as server:
        settled = threading.Event()
        while ask_engine(address_of(settings_of(engram))) is None:
            assert server.poll() is None
            settled.wait(0.02)

        outcome = in_engine(engram, call_of(engram, "status"))
        server.terminate()
        server.communicate()

    assert outcome.status == 0


def test_the_exit_status_of_the_process_is_that_of_the_command(served: Engram) -> None:
    assert served.process("conversations", "show", "conv_unknown").status == 2
    assert served.process("status").status == 0
