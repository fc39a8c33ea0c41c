"""Without usable model files a server works by words, says so, and recovers when they are there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tests.cli.commands import Engram
from tests.meaning.servers import Server, append, found, model_dir, search, serve, status
from tests.promises import promise

WITHOUT_MODELS = ["words_only", "embedder_unavailable", "instant_unavailable"]
TEXT = "The ferry to the island leaves at seven"
QUESTION = "When does the boat leave for the island?"
AGAIN = ("the deep embedder is available again", "the instant embedder is available again")


@promise("alone")
async def test_missing_models_are_told_and_used_once_they_are_there(tmp_path: Path) -> None:
    with serve(tmp_path / "store", embedder="local", model_dir=tmp_path / "models") as server:
        async with server.client() as client:
            assert list(server.degraded) == WITHOUT_MODELS
            await expect_words_only(client)

            shutil.copytree(model_dir(), tmp_path / "models")
            await expect_recovery(server, client)


async def test_damaged_models_are_told_and_used_once_they_are_whole(tmp_path: Path) -> None:
    shutil.copytree(model_dir(), tmp_path / "models")
    for name in ("model.onnx", "model.safetensors"):
        (path,) = (tmp_path / "models").rglob(name)
        damage(path)

    with serve(tmp_path / "store", embedder="local", model_dir=tmp_path / "models") as server:
        async with server.client() as client:
            await expect_words_only(client)

            shutil.copytree(model_dir(), tmp_path / "models", dirs_exist_ok=True)
            await expect_recovery(server, client)


def test_the_start_says_in_words_that_models_are_missing(tmp_path: Path) -> None:
    engram = Engram(tmp_path / "store")
    with engram.start("serve", "--port", "0", model_dir=str(tmp_path)) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if b"Search uses words only." in line:
                break
        else:
            pytest.fail("the start says nothing of it")
        process.terminate()


def damage(path: Path) -> None:
    """Change bytes in the middle of a file; its size stays."""
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"damage")


async def expect_words_only(client: httpx.AsyncClient) -> None:
    """Expect that messages are stored and found by words, and that everything says so."""
    await append(client, TEXT)
    answer = await search(client, QUESTION)
    assert legs(answer) == {"message_words", "window_words"}
    assert answer["degraded"] == WITHOUT_MODELS
    assert (await status(client))["degraded"] == WITHOUT_MODELS
    assert (await client.get("/readyz")).json()["degraded"] == WITHOUT_MODELS


async def expect_recovery(server: Server, client: httpx.AsyncClient) -> None:
    """Expect that by itself the server uses the models, also for what was stored before."""
    await anyio.to_thread.run_sync(server.wait_for, *AGAIN)
    with anyio.fail_after(30):
        while (await status(client))["pending"]:
            pass
    answer = await search(client, QUESTION)
    assert legs(answer) >= {"message_vector", "neighbor_vectors"}
    assert answer["degraded"] == []
    assert (await status(client))["degraded"] == []
    assert (await client.get("/readyz")).json()["degraded"] == []


def legs(answer: dict[str, Any]) -> set[str]:
    """Return what the best message was found by."""
    return set(found(answer)[0]["score_breakdown"]["legs"])
