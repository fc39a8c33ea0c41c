"""Asking documents over REST."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.rest.calls import refusal

TEXT = "The ferry to Ærø leaves at 07:42. The bus leaves at 08:10.\n"


@pytest.fixture
async def stored(api: httpx.AsyncClient) -> dict[str, Any]:
    """A document, as its storing was answered."""
    answer = await api.post("/api/v1/documents", content=TEXT.encode())
    return answer.json()


@pytest.mark.parametrize("name", ["id", "document_id"])
async def test_a_document_is_asked_by_its_id_or_that_of_its_memory(
    api: httpx.AsyncClient, stored: dict[str, Any], name: str
) -> None:
    answer = await api.post(
        f"/api/v1/documents/{stored[name]}/query",
        json={"question": "When?", "filter": {"regex": r"\d\d:\d\d"}, "semantic": False},
    )

    assert 200 == answer.status_code
    (span,) = answer.json()["spans"]
    assert (TEXT, 0, len(TEXT.encode())) == (span["text"], span["start_byte"], span["end_byte"])
    assert ["07:42", "08:10"] == [match["text"] for match in span["matched"]]
    assert [stored["document_id"]] == [each["document_id"] for each in answer.json()["documents"]]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "question"),
        ({"question": "q", "memory_id": "mem_1"}, "memory_id"),
        ({"question": "q", "filter": {"regex": "(?<=a)b"}}, "filter.regex"),
        ({"question": "q", "window_chars": 0}, "window_chars"),
    ],
)
async def test_a_bad_question_is_refused(
    api: httpx.AsyncClient, stored: dict[str, Any], body: dict[str, Any], field: str
) -> None:
    refused = await api.post(f"/api/v1/documents/{stored['id']}/query", json=body)

    assert (400, "invalid_request", field) == refusal(refused)


async def test_a_document_that_is_not_there_is_not_found(api: httpx.AsyncClient) -> None:
    for identifier in ("doc_nowhere", "mem_nowhere"):
        refused = await api.post(f"/api/v1/documents/{identifier}/query", json={"question": "q"})
        assert (404, "not_found") == refusal(refused)[:2]
