"""What a release is made of, and that no secret is in it."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path

import pytest

from tools import audit, sbom
from tools.lock import Pinned, read_lock
from tools.secrets_scan import find_secrets, scan_files, tracked_files

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
A_PACKAGE = Pinned("apple", "1.0", None, ("0" * 64,), ())


def test_the_bill_of_materials_has_every_locked_package_with_its_hashes() -> None:
    bill = sbom.build_sbom(read_lock(LOCK))

    text = LOCK.read_text()
    listed = {(each["name"], each["version"]) for each in bill["components"]}
    hashes = [digest["content"] for each in bill["components"] for digest in each["hashes"]]
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert len(listed) == len(bill["components"]) > 50
    assert all(f"{name}=={version}" in text for name, version in listed)
    assert len(hashes) == text.count("--hash=sha256:")
    assert all(f"sha256:{digest}" in text for digest in hashes)


def test_every_installed_component_has_its_licence() -> None:
    bill = sbom.build_sbom(read_lock(LOCK))

    installed = {each.metadata["Name"].lower() for each in metadata.distributions()}
    silent = {each["name"] for each in bill["components"] if "licenses" not in each}
    assert silent & installed == set()


def test_references_of_the_bill_of_materials_lead_somewhere() -> None:
    bill = sbom.build_sbom(read_lock(LOCK))

    refs = [each["bom-ref"] for each in bill["components"]]
    known = {*refs, bill["metadata"]["component"]["bom-ref"]}
    graph = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    needed = {ref for parents in graph.values() for ref in parents}
    assert len(set(refs)) == len(refs)
    assert graph.keys() == known
    # Hatchling is there to build, and nobody's dependency.
    assert {ref.split("@")[0] for ref in set(refs) - needed} <= {"pkg:pypi/hatchling"}


def test_the_same_lock_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("one.json", "two.json"):
        sbom.main([str(tmp_path / name)])

    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert json.loads((tmp_path / "one.json").read_text())["serialNumber"].startswith("urn:uuid:")


def test_a_lock_with_a_pin_that_has_no_hash_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text("apple==1.0\n")

    with pytest.raises(ValueError, match="1 pins, 0 of which"):
        read_lock(lock)


@pytest.mark.parametrize(
    "secret",
    [
        "-----BEGIN RSA " + "PRIVATE KEY-----",
        "engram_sk_live_" + "aB3" * 10 + "xy",
        "AKIA" + "Q" * 16,
        "ghp_" + "a1" * 18,
        "xoxb-" + "1234567890-abc",
        "sk-ant-" + "a1B2" * 10,
        "AIza" + "b" * 35,
        "hf_" + "c" * 34,
        "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0" + ".c2lnbmF0dXJl",
        "password = '" + "Zx9" * 12 + "'",
    ],
)
def test_a_secret_is_found_unless_it_is_marked_as_made_up(secret: str) -> None:
    text = f"first line\nx = {secret}\ny = {secret}  # a fake secret\n"

    assert [(found.path, found.line) for found in find_secrets("a.py", text)] == [("a.py", 2)]


@pytest.mark.parametrize(
    "line",
    [
        "Authorization: Bearer engram_sk_live_…",
        "export ENGRAM_ADMIN_TOKEN=secret",
        "    --hash=sha256:" + "0a" * 32,
        "postgresql://owner:secret@db.example/engram",
        "token = secrets.token_urlsafe(24)",
    ],
)
def test_what_every_page_holds_is_no_secret(line: str) -> None:
    assert list(find_secrets("a.md", line)) == []


def test_no_tracked_file_holds_a_secret() -> None:
    assert scan_files(ROOT, tracked_files(ROOT)) == []


@contextmanager
def answering(answer: object) -> Generator[str]:
    """Stand in for the database of advisories."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 its own name
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_advisories_are_told_by_package() -> None:
    answer = {"results": [{"vulns": [{"id": "PYSEC-1"}, {"id": "GHSA-2"}]}]}

    with answering(answer) as url:
        found = audit.find_advisories([A_PACKAGE], url=url)

    assert found == {"apple 1.0": ["PYSEC-1", "GHSA-2"]}


def test_a_package_without_advisories_is_not_told_of() -> None:
    answer: dict[str, list[dict[str, list[str]]]] = {"results": [{}]}

    with answering(answer) as url:
        assert audit.find_advisories([A_PACKAGE], url=url) == {}


def test_a_database_that_cannot_be_reached_fails_nothing_and_is_told_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert audit.audit_advisories(url="http://127.0.0.1:1/") == 0

    assert "NOT CHECKED" in capsys.readouterr().out
