"""The threads in which reads run."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest

from engram.errors import StorageError
from engram.storage.threads import WorkerThreads


async def test_functions_run_beside_each_other_up_to_the_bound(threads: WorkerThreads) -> None:
    together = threading.Barrier(4, timeout=60)

    answers = await asyncio.gather(*[threads.run(together.wait) for _ in range(8)])

    assert sorted(answers) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_an_exception_reaches_whoever_waits(threads: WorkerThreads) -> None:
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)

    assert await threads.run(lambda: "still there") == "still there"


async def test_a_job_nobody_waits_for_fails_into_the_log(
    threads: WorkerThreads, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise KeyError("unseen")

    threads.start(fail)
    threads.stop()

    assert "unseen" in caplog.text


async def test_stopping_finishes_what_was_started_and_refuses_the_rest() -> None:
    threads = WorkerThreads(1)
    may_end = threading.Event()
    first = asyncio.ensure_future(threads.run(lambda: may_end.wait(5)))
    second = asyncio.ensure_future(threads.run(lambda: "queued"))
    await anyio.lowlevel.checkpoint()

    may_end.set()
    await asyncio.to_thread(threads.stop)

    assert await first
    assert await second == "queued"
    with pytest.raises(StorageError):
        await threads.run(lambda: "late")
