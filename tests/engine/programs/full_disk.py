"""Fill the file system of a store under its engine, then let a client write, search and start again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.engine.processes import Bridge, connected, engine_process
from tests.small_disk import fill

LONG = "x" * 100_000


def append(client: Bridge, text: str) -> Any:
    """Return the result of an append, which may be a refusal."""
    return client.result("append_messages", messages=[{"role": "user", "content": text}])


def main(home: Path) -> None:
    """Print what clients were told before, on and after a full file system, as JSON."""
    ballast = home.parent / "ballast"
    shown = dict[str, Any]()
    with connected(home) as client:
        client.keep("The letter came by post")
        first = engine_process(home)
        fill(ballast)
        shown["refused"] = append(client, LONG)
        shown["found"] = client.call("search", query="letter")
        with connected(home) as late:
            shown["found_late"] = late.call("search", query="letter")
            shown["log_of_late"] = late.end()
        shown["same_engine"] = engine_process(home) == first
        ballast.unlink()
        shown["kept"] = append(client, LONG)
        shown["log"] = client.end()
    sys.stdout.write(json.dumps(shown))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
