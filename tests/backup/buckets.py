"""An S3-compatible service on this machine."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

import httpx
from moto.server import ThreadedMotoServer


@contextmanager
def running_service(bucket: str) -> Generator[Mapping[str, str]]:
    """Run a service with an empty bucket; yield the environment that leads to it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        httpx.put(f"{endpoint}/{bucket}").raise_for_status()
        yield {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true",
        }
    finally:
        server.stop()
