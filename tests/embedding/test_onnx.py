"""The deep embedder: prefixes, bounds, damaged files, and models from any directory."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engram.clock import SystemClock
from engram.embedding.files import ModelFiles, find_directory, find_registered
from engram.embedding.local import OnnxEmbedder
from engram.embedding.port import Embedder
from engram.embedding.registry import ARCTIC
from engram.embedding.tokens import SLICE_CHARACTERS, count_tokens, load_tokenizer
from engram.errors import EmbedderUnavailableError, LimitExceededError
from engram.limits import MODEL_RETRY_S
from engram.text.passages import split_passages
from tests.fakes import FakeClock

DOCUMENTATION = b"\x32\x05hello"
"""A field of the ONNX format that changes a file's hash and nothing else."""


@asynccontextmanager
async def opened(directory: Path) -> AsyncGenerator[Embedder]:
    embedder = OnnxEmbedder(lambda: find_directory(directory), threads=1, clock=SystemClock())
    yield embedder
    await embedder.close()


@pytest.fixture
def unknown_model(files: ModelFiles, tmp_path: Path) -> Path:
    """Return a directory with a model whose hash is not in the registry."""
    known = files.directory(ARCTIC)
    directory = tmp_path / "my-model"
    (directory / "onnx").mkdir(parents=True)
    model = (known / "model.onnx").read_bytes() + DOCUMENTATION
    (directory / "onnx" / "model.onnx").write_bytes(model)
    shutil.copy(known / "tokenizer.json", directory)
    return directory


def write_json(path: Path, **content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


async def test_a_query_is_embedded_with_its_prefix(arctic: Embedder) -> None:
    text = "where the spare key is hidden"

    query = await arctic.embed_query(text)

    bare, prefixed = await arctic.embed_passages([text, ARCTIC.identity.query_prefix + text])
    assert query @ prefixed > 0.99999
    assert query @ bare < 0.95


async def test_a_passage_of_exactly_the_bound_is_embedded_and_a_longer_one_refused(
    arctic: Embedder,
) -> None:
    longest = "word " * ARCTIC.identity.max_tokens

    assert arctic.count_tokens(longest) == ARCTIC.identity.max_tokens
    assert len(await arctic.embed_passages([longest])) == 1
    with pytest.raises(LimitExceededError) as caught:
        await arctic.embed_passages(["fits", longest + "word"])
    assert caught.value.actual == caught.value.limit + 1


LONG_TEXTS = {
    "prose": "The ferry was late again, so we missed the train.\n\nWe walked. " * 300,
    "chinese": "今天我们去公园散步。" * 400,
    "base64": "QmFzZTY0/+" * 3_000,
    "code": "def f(x): return {x: [y for y in x if y != None]}\n" * 200,
    "emoji": "🎉" * 5_000,
}


@pytest.mark.parametrize("text", LONG_TEXTS.values(), ids=LONG_TEXTS)
async def test_passages_of_a_long_text_all_fit(arctic: Embedder, text: str) -> None:
    limit = ARCTIC.identity.max_tokens

    ranges = split_passages(text, tokens_max=limit, count_tokens=arctic.count_tokens)
    passages = [text[passage.start : passage.end] for passage in ranges]

    assert "".join(passages) == text
    assert max(map(arctic.count_tokens, passages)) <= limit
    assert len(await arctic.embed_passages(passages[:3])) == len(passages[:3])


def test_a_very_long_text_is_counted_in_parts_without_a_difference(files: ModelFiles) -> None:
    tokenizer = load_tokenizer(files.directory(ARCTIC) / "tokenizer.json")
    text = "Some words, and (others) beside them. " * 10_000

    counted = count_tokens(tokenizer, text)

    assert len(text) > 5 * SLICE_CHARACTERS
    assert counted == len(tokenizer.encode(text, add_special_tokens=False).ids)
    assert count_tokens(tokenizer, "x" * 3 * SLICE_CHARACTERS) <= 3


async def test_a_query_that_is_too_long_is_truncated(arctic: Embedder) -> None:
    start = "where is the spare key? " * 200

    with_rest = await arctic.embed_query(start + "and what is the weather like? " * 500)

    assert with_rest @ await arctic.embed_query(start) > 0.99999


async def test_a_damaged_file_is_refused_until_it_is_repaired(
    files: ModelFiles, tmp_path: Path
) -> None:
    copies = ModelFiles(tmp_path)
    shutil.copytree(files.directory(ARCTIC), copies.directory(ARCTIC))
    model = copies.directory(ARCTIC) / "model.onnx"
    whole = model.read_bytes()
    model.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    clock = FakeClock()
    embedder = OnnxEmbedder(lambda: find_registered(ARCTIC, copies), threads=1, clock=clock)

    with pytest.raises(EmbedderUnavailableError, match="damaged"):
        await embedder.embed_query("x")
    model.write_bytes(whole)
    with pytest.raises(EmbedderUnavailableError):
        await embedder.embed_query("too soon to look again")
    clock.advance(timedelta(seconds=MODEL_RETRY_S))

    assert len(await embedder.embed_query("x")) == ARCTIC.identity.dimensions
    await embedder.close()


async def test_the_error_for_a_missing_model_tells_how_to_install_it(tmp_path: Path) -> None:
    nowhere = ModelFiles(tmp_path)
    embedder = OnnxEmbedder(lambda: find_registered(ARCTIC, nowhere), threads=1, clock=FakeClock())

    with pytest.raises(EmbedderUnavailableError, match=f"engram models pull {ARCTIC.name}"):
        await embedder.embed_passages(["x"])
    await embedder.close()


async def test_a_directory_with_a_known_model_has_its_identity(files: ModelFiles) -> None:
    async with opened(files.directory(ARCTIC)) as embedder:
        assert await embedder.identify() == ARCTIC.identity


async def test_engram_json_describes_how_a_model_is_used(
    unknown_model: Path, arctic: Embedder
) -> None:
    write_json(unknown_model / "engram.json", pooling="cls", query_prefix="search: ")

    async with opened(unknown_model) as embedder:
        identity = await embedder.identify()
        (passage,) = await embedder.embed_passages(["a note"])
        query = await embedder.embed_query("a note")

    assert (identity.name, identity.dimensions) == ("my-model", 384)
    assert (identity.max_tokens, identity.query_prefix) == (510, "search: ")
    assert identity.revision != ARCTIC.identity.revision
    assert passage @ (await arctic.embed_passages(["a note"]))[0] > 0.99999
    assert query @ (await arctic.embed_passages(["search: a note"]))[0] > 0.99999


async def test_the_files_of_sentence_transformers_are_understood(unknown_model: Path) -> None:
    write_json(unknown_model / "1_Pooling" / "config.json", pooling_mode_mean_tokens=True)
    write_json(
        unknown_model / "config_sentence_transformers.json",
        prompts={"query": "query: ", "passage": "passage: "},
    )
    write_json(unknown_model / "sentence_bert_config.json", max_seq_length=128)

    async with opened(unknown_model) as embedder:
        identity = await embedder.identify()
        vectors = await embedder.embed_passages(["a note"])

    tokens_beside = ["[CLS]", "passage", ":", "[SEP]"]
    assert (identity.pooling, identity.max_tokens) == ("mean", 128 - len(tokens_beside))
    assert (identity.query_prefix, identity.passage_prefix) == ("query: ", "passage: ")
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(
    "own",
    [
        {},
        {"engram.json": {"pooling": "max"}},
        {"engram.json": {"prefix": "query: "}},
        {"engram.json": {"max_tokens": "512"}},
        {"engram.json": {"max_tokens": 0}},
    ],
)
async def test_how_a_model_is_used_is_never_guessed(
    unknown_model: Path, own: dict[str, dict[str, Any]]
) -> None:
    for name, content in own.items():
        write_json(unknown_model / name, **content)

    async with opened(unknown_model) as embedder:
        with pytest.raises(EmbedderUnavailableError, match="pooling"):
            await embedder.identify()


@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json", "engram.json"])
async def test_an_invalid_file_makes_the_embedder_unavailable(
    unknown_model: Path, name: str
) -> None:
    write_json(unknown_model / "engram.json", pooling="cls")
    (unknown_model / name).write_text("not what it should be")

    async with opened(unknown_model) as embedder:
        with pytest.raises(EmbedderUnavailableError):
            await embedder.embed_query("x")


async def test_the_error_for_an_empty_directory_names_the_missing_file(tmp_path: Path) -> None:
    async with opened(tmp_path) as embedder:
        with pytest.raises(EmbedderUnavailableError, match=r"model\.onnx"):
            await embedder.identify()
