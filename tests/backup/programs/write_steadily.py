"""Append to a conversation until the process is ended, and print when each call began and was answered.

python -m tests.backup.programs.write_steadily HOME NAME
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from engram.clock import SystemClock, format_time
from tests.backup.stores import begin_in_new, opened, say

MESSAGES = 3
"""Of one call: all of them are stored, or none."""


async def main(home: Path, name: str) -> None:
    clock = SystemClock()
    async with opened(home) as store:
        conversation = await begin_in_new(store, f"of {name}")
        print(*conversation, flush=True)  # noqa: T201 for the test
        for number in itertools.count():
            began = clock.now()
            await say(store, conversation, *(f"{name} {number} {part}" for part in range(MESSAGES)))
            print(number, format_time(began), format_time(clock.now()), flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
