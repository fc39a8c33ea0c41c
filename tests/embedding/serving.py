"""Local HTTP servers that run for the duration of a block."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class _Server(ThreadingHTTPServer):
    # Its end waits for the requests it is answering, so that no socket outlives the test.
    daemon_threads = False


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], *, port: int = 0) -> Generator[str]:
    """Serve with `handler` until the block ends; yield the address."""
    server = _Server(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
