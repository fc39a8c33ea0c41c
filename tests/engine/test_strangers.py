"""Whom an engine does not serve: other users, and clients of another version."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import pytest

import engram
from engram.engine.launch import PROTOCOL
from tests.engine.processes import address, connected, engines_of, wait_until
from tests.engine.processes import engram as run_engram
from tests.permissions import unprivileged

OTHER_VERSION = "99.0.0"


def test_a_process_of_another_user_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connected(home) as client:
        client.keep("the kingfisher is blue")
        where = address(home).socket

        modes = [path.stat().st_mode & 0o777 for path in (where, where.parent)]
        # Even where the modes would let it in.
        where.chmod(0o777)
        where.parent.chmod(0o711)
        monkeypatch.chdir(where.parent)
        with unprivileged():
            answer = introduction(where.name)

        assert modes == [0o600, 0o700]
        # Only root can be somebody else, and the test's own user is served.
        assert bool(answer) is (os.geteuid() != 0)
        assert "the kingfisher is blue" in client.call("search", query="kingfisher")


def test_another_version_has_an_engine_of_its_own_on_the_same_store(
    home: Path, tmp_path: Path
) -> None:
    other_engram = a_copy_of_engram(tmp_path / "other", version=OTHER_VERSION)

    with connected(home) as ours, connected(home, code=other_engram) as other:
        ours.keep("the kingfisher is blue")
        other.keep("the heron is grey")

        assert "the heron is grey" in ours.call("search", query="heron")
        assert "the kingfisher is blue" in other.call("search", query="kingfisher")
        shown = run_engram(home, "engine", "status", "--json")["engines"]
        assert {each["version"] for each in shown} == {engram.__version__, OTHER_VERSION}
        assert (ours.end(), other.end()) == ("", "")
    wait_until(lambda: not engines_of(home))


def introduction(path: str) -> bytes:
    """Return what an engine says to a hello message; empty if it closes the connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.connect(path)
        try:
            link.sendall(json.dumps({"engine": PROTOCOL}).encode() + b"\n")
            return link.recv(1)
        except ConnectionError:
            return b""


def a_copy_of_engram(directory: Path, *, version: str) -> Path:
    """Return a directory from which Python imports Engram in another version."""
    shutil.copytree(Path(engram.__file__).parent, directory / "engram")
    module = directory / "engram" / "__init__.py"
    module.write_text(module.read_text().replace(engram.__version__, version))
    return directory
