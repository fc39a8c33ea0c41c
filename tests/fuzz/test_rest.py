"""Mutated bodies to REST: an answer below 500 to each, and nothing in the log."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from engram.http.asgi import create_app
from tests.fuzz.mutants import BYTEWISE, STRUCTURAL
from tests.fuzz.posting import Posting, served
from tests.fuzz.store import furnish_for_key, settings_in
from tests.promises import promise

BODIES = 1_000
MESSAGE = {"role": "user", "content": "The harbour opens at six.", "metadata": {"a": [1, None]}}


def valid_requests(ids: Sequence[str]) -> list[tuple[str, Any]]:
    """Return an address and a body for each kind of thing that is posted."""
    conversation, memory = ids[0], ids[2]
    return [
        ("/conversations", {"title": "Harbours", "tags": ["x"], "metadata": {"a": 1}}),
        (f"/conversations/{conversation}/messages", {"messages": [MESSAGE] * 2}),
        ("/messages", {"messages": [MESSAGE], "idempotency_key": "k"}),
        ("/search", {"query": "harbour", "limit": 5, "tags": ["x"], "token_budget": 500}),
        ("/notes", {"content": "The harbour is deep enough.", "category": "project"}),
        ("/context", {"query": "harbour", "top_k": 3}),
        ("/memories", {"content": "The harbour is deep.", "importance": 1, "tags": ["x"]}),
        ("/memories/recall", {"query": "harbour", "detail": "full"}),
        (f"/memories/{memory}/relations", {"target_id": ids[3], "relation_type": "supports"}),
        ("/keys", {"name": "k", "scopes": ["read"]}),
    ]


def mutated_body(random: Random, body: Any) -> bytes:
    """Return a body that is not quite valid."""
    for _ in range(random.choice((0, 1, 1, 2))):
        body = random.choice(STRUCTURAL)(random, body)
    data = json.dumps(body, ensure_ascii=random.random() < 0.7).encode(errors="surrogatepass")
    return random.choice(BYTEWISE)(random, data) if random.random() < 0.4 else data


@promise("clear", bodies=2 * BODIES)
@pytest.mark.parametrize("seed", ["rest-1", "rest-2"])
async def test_no_body_is_an_error_of_the_server(
    tmp_path: Path, seed: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = settings_in(tmp_path)
    key, ids = await furnish_for_key(settings)

    async with served(create_app(settings)) as app:
        posting = Posting(app, key)
        for number in range(BODIES):
            random = Random(f"{seed}/{number}")  # noqa: S311 no secret
            path, body = random.choice(valid_requests(ids))
            data = mutated_body(random, body)
            status, answer = await posting.post(f"/api/v1{path}", data, {})

            assert status < 500, f"{seed}/{number}: {status} {answer!r} to {path} {data[:2000]!r}"
            assert status < 300 or json.loads(answer)["code"], f"{seed}/{number}"

    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
