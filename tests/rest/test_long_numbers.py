"""Numbers longer than Python converts are refused wherever a caller can write one."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.promises import promise
from tests.rest.calls import refusal

DIGITS = "9" * 4_301
"""One more than `int` takes."""

SPELLINGS = [DIGITS, f"-{DIGITS}", f"0.{DIGITS}", f"1e{DIGITS}"]


def queries(
    document: dict[str, dict[str, dict[str, dict[str, list[dict[str, str]]]]]],
) -> list[tuple[str, str, str]]:
    """Return method, path and name of every query parameter there is."""
    return [
        (method, re.sub(r"\{[^}]*\}", "unknown", path), parameter["name"])
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for parameter in operation.get("parameters", [])
        if parameter["in"] == "query"
    ]  # fmt: skip


@promise("clear")
@pytest.mark.parametrize("spelling", SPELLINGS, ids=["whole", "negative", "decimal", "exponent"])
async def test_no_parameter_takes_a_number_too_long_to_convert_for_a_fault_of_the_server(
    api: httpx.AsyncClient, operator: httpx.AsyncClient, spelling: str
) -> None:
    document = (await api.get("/api/v1/openapi.json")).json()

    for method, path, name in queries(document):
        client = operator if path.startswith("/admin") else api
        answer = await client.request(method, path, params={name: spelling})

        assert answer.status_code < 500, (method, path, name)


@pytest.mark.parametrize("name", ["limit", "offset"])
async def test_a_parameter_too_long_to_convert_is_named(api: httpx.AsyncClient, name: str) -> None:
    answer = await api.get("/api/v1/conversations", params={name: DIGITS})

    assert refusal(answer) == (400, "invalid_request", name)


async def test_a_range_too_long_to_convert_is_answered_with_everything(
    api: httpx.AsyncClient,
) -> None:
    made = await api.post(
        "/api/v1/documents", content=b"hello", headers={"Content-Type": "text/plain"}
    )

    read = await api.get(
        f"/api/v1/documents/{made.json()['document_id']}",
        headers={"Range": f"bytes=0-{DIGITS}"},
    )

    assert (read.status_code, read.content) == (200, b"hello")
