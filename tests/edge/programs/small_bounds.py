"""Serve a store with bounds so small that a test can wait for them; writes its URL to stdout."""

from __future__ import annotations

import sys
from pathlib import Path

from engram.embedding.choice import NoEmbedder
from engram.http.connections import EdgeBounds
from engram.http.server import listen, run
from engram.settings import Settings

BOUNDS = EdgeBounds(
    connections_max=150,
    connections_per_address_max=150,
    header_s=5,
    transfer_window_s=5,
    linger_s=1,
    sweep_s=0.1,
)


def main() -> None:
    """Run until told to stop."""
    home, token, workers = sys.argv[1:]
    settings = Settings(
        home=Path(home),
        port=0,
        workers=int(workers),
        embedder=NoEmbedder(),
        admin_token=token,
        rate_limit=0,
        log="warning",
    )
    with listen(settings) as listener:
        sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        run(settings, listener, bounds=BOUNDS)


if __name__ == "__main__":
    main()
