"""Makes the stores of earlier versions: `python -m tests.upgrades.making`.

Each is written over REST by the code of its time, which is taken from the history of this
repository and runs with the packages of today. An archive that exists is left as it is.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx

from tests.postgres.servers import Server, running_servers
from tests.upgrades.rows import dump_rows
from tests.upgrades.versions import FOLDER, POSTGRES, SQLITE, WRITTEN, Written, archive_of

OPERATOR = "operator-of-an-earlier-version-0123456789"
PATIENCE_S = 60.0
EARLIER_PACKAGES = ("fastapi", "psycopg-pool", "pydantic-settings")
"""That earlier versions needed and this one does not."""
UNKNOWN = (404, 405)
"""What a version answers that does not have a route."""

TEXTS = (
    "When do we fly to Lisbon?",
    "The flight to Lisbon leaves on Friday at 07:40 from terminal 2. " * 4,
    "Zażółć gęślą jaźń 東京 🦊 e\u0301 \u202egnirts",
    "tabs\tand\r\nlines\rand \x1b[31mred\x1b[0m and NUL \x00 end",
    "Please book a hotel near the river.",
    "The hotel is booked, with breakfast and a view of the bridge.",
    "Thank you.",
)
DOCUMENT = (
    "# Harbour\n\nThe ferry leaves pier nine at dawn.\n\n## Winter\n\nNo ferry runs in January.\n"
)


def main() -> None:
    """Make the archives that are missing."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as packages:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", packages]
        subprocess.run([*install, *EARLIER_PACKAGES], check=True)
        _make_missing(packages)


def _make_missing(packages: str) -> None:
    for version, commit in SQLITE.items():
        if not archive_of("sqlite", version).exists():
            _make_sqlite(version, commit, packages)
    missing = {
        v: commit for v, commit in POSTGRES.items() if not archive_of("postgres", v).exists()
    }
    if missing:
        with running_servers() as servers:
            server = servers.primary()
            for version, commit in missing.items():
                _make_postgres(server, version, commit, packages)


def _make_sqlite(version: int, commit: str, packages: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        written = _write(commit, Path(directory), packages, ENGRAM_HOME=str(home))
        files = {
            path.relative_to(home).as_posix(): path.read_bytes()
            for path in sorted(home.rglob("*"))
            if path.suffix in {".db", ".mark"}
        }
    _pack(archive_of("sqlite", version), files, written)


def _make_postgres(server: Server, version: int, commit: str, packages: str) -> None:
    database = f"golden{version}"
    server.execute(f"CREATE DATABASE {database}")
    with tempfile.TemporaryDirectory() as directory:
        written = _write(
            commit,
            Path(directory),
            packages,
            ENGRAM_HOME=str(Path(directory) / "home"),
            ENGRAM_DATABASE_URL=server.socket_url(database),
        )
    _pack(archive_of("postgres", version), dump_rows(server.url(database)), written)


def _pack(path: Path, files: Mapping[str, bytes], written: list[Written]) -> None:
    described = json.dumps([asdict(each) for each in written], ensure_ascii=True, indent=1)
    with tarfile.open(path, "w:xz") as archive:
        for name, content in {**files, WRITTEN: described.encode()}.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o600
            archive.addfile(entry, io.BytesIO(content))
    sys.stdout.write(f"{path.name}: {path.stat().st_size:,} bytes\n")


def _write(commit: str, directory: Path, packages: str, **variables: str) -> list[Written]:
    """Let the code of a commit write a store, and return what it was sent."""
    packed = subprocess.run(
        ["git", "archive", commit, "src"], check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(directory, filter="data")
    path = os.pathsep.join((str(directory / "src"), packages))
    with _serving(path, variables) as url:
        written = [_Organization(url, name).fill() for name in ("Acme", "Globex")]
        for each in written:
            _wait_until_indexed(url, each.key)
    return written


@contextmanager
def _serving(path: str, variables: Mapping[str, str]) -> Generator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environment = {
        name: value
        for name, value in os.environ.items()  # noqa: TID251 for the process that is started
        if not name.startswith("ENGRAM_")
    }
    settings = {
        "ENGRAM_PORT": str(port),
        "ENGRAM_ADMIN_TOKEN": OPERATOR,
        "ENGRAM_EMBEDDER": "hash",
        "PYTHONPATH": path,
    }
    with subprocess.Popen(
        [sys.executable, "-m", "engram", "serve"],
        env={**environment, **settings, **variables},
        stdout=subprocess.DEVNULL,
    ) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_until_ready(url, process)
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/readyz").is_success:
                return
        except httpx.TransportError:
            pass  # it does not listen yet
        time.sleep(0.05)
    raise TimeoutError("the server of an earlier version did not start")


def _wait_until_indexed(url: str, key: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    headers = {"Authorization": f"Bearer {key}"}
    while time.monotonic() < deadline:
        status = httpx.get(f"{url}/api/v1/status", headers=headers).raise_for_status().json()
        if not status.get("pending"):
            return
        time.sleep(0.05)
    raise TimeoutError("vectors of an earlier version are not complete")


class _Organization:
    """What one organisation is sent; what a version does not have is left out."""

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        operator = {"Authorization": f"Bearer {OPERATOR}"}
        made = httpx.post(f"{url}/admin/organizations", json={"name": name}, headers=operator)
        answer = made.raise_for_status().json()
        self._organization_id, self._key = answer["organization_id"], answer["api_key"]
        self._headers = {"Authorization": f"Bearer {self._key}"}
        self._conversations: dict[str, list[str]] = {}
        self._memories: dict[str, str] = {}
        self._documents: dict[str, str] = {}

    def fill(self) -> Written:
        """Send everything, and return what is there then."""
        self._converse()
        self._capture()
        self._note()
        self._remember()
        self._add_document()
        return Written(
            organization_id=self._organization_id,
            name=self._name,
            key=self._key,
            conversations=self._conversations,
            memories=self._memories,
            documents=self._documents,
        )

    def _call(self, method: str, path: str, **sent: Any) -> Any:
        """Return the answer of a request; None if this version has no such route."""
        headers = {**self._headers, **sent.pop("headers", {})}
        answer = httpx.request(method, f"{self._url}/api/v1{path}", headers=headers, **sent)
        if answer.status_code in UNKNOWN:
            return None
        if answer.is_error:
            raise ValueError(f"{method} {path}: {answer.text}")
        return answer.json() if answer.content else {}

    def _converse(self) -> None:
        draft = {"title": "Lisbon", "tags": ["travel", "spring"], "metadata": {"budget": 900}}
        made = self._call("POST", "/conversations", json=draft)["conversation_id"]
        roles = ("user", "assistant")
        messages = [
            {"role": roles[place % 2], "content": text, "metadata": {"place": place}}
            for place, text in enumerate(TEXTS)
        ]
        messages.append(
            {"role": "tool", "content": "42", "tool_call_id": "c1", "tool_name": "count"}
        )
        path = f"/conversations/{made}/messages"
        for part in (messages[:3], messages[3:]):
            body = {"messages": part}
            key = {"Idempotency-Key": f"part-{len(part)}"}
            self._call("POST", path, json=body, headers=key)
        self._conversations[made] = [str(message["content"]) for message in messages]
        removed = self._call("POST", "/conversations", json={"title": "Removed"})["conversation_id"]
        gone = {"messages": [{"role": "user", "content": "nobody shall read this again"}]}
        self._call("POST", f"/conversations/{removed}/messages", json=gone)
        self._call("DELETE", f"/conversations/{removed}")
        said = {"messages": [{"role": "user", "content": "The demo is on Friday."}]}
        default = self._call("POST", "/messages", json=said)["conversation_id"]
        self._conversations[default] = ["The demo is on Friday."]

    def _capture(self) -> None:
        session = {
            "source": "claude",
            "session": "s1",
            "conversation": {"title": "Ferry", "project": "harbour"},
            "messages": [{"role": "user", "content": "ahoy", "original_id": "a"}],
        }
        captured = self._call("POST", "/capture", json=session)
        if captured is not None:
            self._conversations[captured["conversation_id"]] = ["ahoy"]

    def _note(self) -> None:
        texts = ("The wifi password is on the fridge.", "Tanuki are tricksters.")
        for text in texts:
            kept = self._call("POST", "/notes", json={"content": text, "project": "home"})
            if kept is not None:
                self._memories[_id_in(kept)] = text

    def _remember(self) -> None:
        drafts = [
            {"content": f"Decision {number}: use pier {number}.", "memory_type": "decision"}
            for number in range(5)
        ]
        stored = [self._call("POST", "/memories", json=draft) for draft in drafts]
        if None in stored:
            return
        ids = [_id_in(each) for each in stored]
        self._memories |= {ids[place]: drafts[place]["content"] for place in (1, 2, 4)}
        self._memories[ids[0]] = "Decision 0: use pier nine."
        self._call("PATCH", f"/memories/{ids[0]}", json={"content": self._memories[ids[0]]})
        link = {"target_id": ids[2], "relation_type": "supports", "strength": 0.5}
        self._call("POST", f"/memories/{ids[1]}/relations", json=link)
        self._call("POST", "/memories/feedback", json={"memory_ids": [ids[1]], "helpful": True})
        self._call("POST", f"/memories/{ids[4]}/forget", json={"reason": "it was wrong"})
        self._call("DELETE", f"/memories/{ids[3]}")
        episode = self._call("POST", "/episodes", json={"description": "Spring", "project": "home"})
        if episode is not None:
            draft = {"content": "The gate is green.", "project": "home"}
            draft["episode_id"] = episode["episode_id"]
            self._memories[_id_in(self._call("POST", "/memories", json=draft))] = draft["content"]

    def _add_document(self) -> None:
        sent = {"Content-Type": "text/markdown"}
        kept = self._call("POST", "/documents", content=DOCUMENT.encode(), headers=sent)
        if kept is not None:
            self._documents[kept["document_id"]] = DOCUMENT


def _id_in(answer: Mapping[str, Any]) -> str:
    for name in ("memory_id", "entry_id", "id"):
        if name in answer:
            return answer[name]
    raise KeyError(f"no id in {sorted(answer)}")


if __name__ == "__main__":
    main()
