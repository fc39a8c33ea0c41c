"""A process that may open few files: whoever needs one waits, and who cannot wait is told the cause."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from engram import limits
from engram.clock import RandomIds, SystemClock
from engram.errors import OpenFilesError
from engram.model.access import KeyDraft, OrganizationDraft
from engram.storage.sqlite.connection import create_file, open_writer
from engram.storage.sqlite.descriptors import connections_max
from engram.storage.sqlite.store import SqliteStore
from tests.cli.commands import Engram
from tests.meaning.servers import serve
from tests.storage.processes import PROJECT, command

TRIES = 20

ORGANIZATIONS = 100
APPENDS = 6
ALL_STORED = f"stored {ORGANIZATIONS * APPENDS}\n"


@contextmanager
def files_at_most(count: int) -> Generator[None]:
    """Let this process, and those it starts, open few files for a while."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("files", [256, 40])
async def test_every_append_of_many_organisations_is_stored_with_few_files(
    tmp_path: Path, files: int
) -> None:
    with anyio.fail_after(120):
        ended = await anyio.run_process(
            command("scarce_files", files, tmp_path / "store", ORGANIZATIONS, APPENDS),
            cwd=PROJECT,
            stderr=sys.stderr,
        )

    assert ended.stdout.decode() == ALL_STORED


def limited(files: int, *arguments: str) -> list[str]:
    """Return a command that may open so many files at most, and cannot raise that limit."""
    return ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *arguments]


async def keys_of_organizations(home: Path) -> list[str]:
    """Return a key of each new organisation."""
    store = SqliteStore(home, clock=SystemClock(), ids=RandomIds())
    await store.open()
    control, keys = store.control, list[str]()
    for number in range(ORGANIZATIONS):
        made = await control.create_organization(OrganizationDraft(name=f"{number}"), actor="test")
        key = await control.create_key(made.id, KeyDraft(name="a key"), actor="test")
        keys.append(key.secret)
    await store.close()
    return keys


async def test_a_server_with_few_files_stores_what_many_organisations_send(tmp_path: Path) -> None:
    keys = await keys_of_organizations(tmp_path)

    with serve(tmp_path, prefix=limited(256), embedder="none") as server:
        # Kept connections: those that a client closes and opens again are counted twice for a moment.
        kept = httpx.Limits(max_connections=100, max_keepalive_connections=100)
        async with httpx.AsyncClient(base_url=server.url, limits=kept, timeout=60) as client:
            answers = await asyncio.gather(
                *(append(client, key) for key in keys for _ in range(APPENDS))
            )

    assert [answer.text for answer in answers if answer.status_code != 200] == []


async def append(client: httpx.AsyncClient, key: str) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "a word"}]}
    headers = {"Authorization": f"Bearer {key}"}
    return await client.post("/api/v1/messages", json=body, headers=headers)


def test_a_server_that_may_open_too_few_files_says_how_many_it_needs(tmp_path: Path) -> None:
    engram = Engram(tmp_path / "store")
    started = limited(40, sys.executable, "-m", "engram", "serve", "--port", "0")
    refused = subprocess.run(
        started, capture_output=True, text=True, timeout=60, check=False, env=engram.environment()
    )

    assert (refused.returncode, refused.stdout) == (2, "")
    assert "ulimit -n" in refused.stderr
    assert str(limits.OPEN_FILES_MIN) in refused.stderr
    assert not engram.home.exists()


def test_who_waits_in_vain_for_a_file_is_told_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STORE_BUSY_S", 0.2)
    path = tmp_path / "a.db"
    create_file(path)
    refusal = pytest.raises(OpenFilesError, match=r"256 file descriptors .*ulimit -n")
    with files_at_most(256), ExitStack() as opened, refusal:
        open_too_many(path, opened)


def open_too_many(path: Path, opened: ExitStack) -> None:
    """Open a file more often than the limit allows; stores that are still open count too."""
    for _ in range(connections_max() + 1):
        opened.callback(open_writer(path).close)


def test_descriptors_that_others_took_are_named_as_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STORE_BUSY_S", 0.2)
    path = tmp_path / "a.db"
    create_file(path)
    with files_at_most(256):
        taken = list[int]()
        try:
            with pytest.raises(OpenFilesError, match=r"256 file descriptors .*ulimit -n"):
                open_without_descriptors(path, taken)
        finally:
            for descriptor in taken:
                os.close(descriptor)


def open_without_descriptors(path: Path, taken: list[int]) -> None:
    """Open a writer when all descriptors are taken; a thread of another test may give one back meanwhile."""
    for _ in range(TRIES):
        taken += take_all_descriptors()
        open_writer(path).close()


def take_all_descriptors() -> list[int]:
    # What other tests left to the collector would be closed in the middle of this one.
    gc.collect()
    taken = list[int]()
    while True:
        try:
            taken.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return taken
