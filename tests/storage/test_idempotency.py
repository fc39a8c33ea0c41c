"""One idempotency key stands for one request: repeated it is answered again, another is a conflict."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from engram.errors import IdempotencyConflictError
from engram.model.conversation import AppendReceipt, AppendRequest, MessageDraft
from engram.model.value import replace
from engram.storage.organization import OrganizationStore
from tests.fakes import SOME_DAY, FakeClock
from tests.promises import promise
from tests.storage.drafts import ACTOR, UNBOUNDED, begin, damage

pytestmark = promise("idempotent")

MESSAGE = MessageDraft(
    role="tool",
    content="the ferry leaves at nine",
    name="Ada",
    tool_call_id="call-1",
    tool_name="timetable",
    occurred_at=SOME_DAY,
    metadata={"pier": 4, "line": "blue"},
)
REQUEST = AppendRequest(messages=(MESSAGE,), idempotency_key="once")

ANOTHER: dict[str, Callable[[AppendRequest], AppendRequest]] = {
    "content": lambda first: _changed(first, content="the ferry leaves at ten"),
    "role": lambda first: _changed(first, role="user"),
    "name": lambda first: _changed(first, name="Grace"),
    "no name": lambda first: _changed(first, name=None),
    "tool call": lambda first: _changed(first, tool_call_id="call-2"),
    "tool": lambda first: _changed(first, tool_name="clock"),
    "time": lambda first: _changed(first, occurred_at=SOME_DAY + timedelta(microseconds=1)),
    "metadata": lambda first: _changed(first, metadata={"pier": 5, "line": "blue"}),
    "one more": lambda first: replace(first, messages=(*first.messages, MESSAGE)),
}


def _changed(first: AppendRequest, **fields: object) -> AppendRequest:
    (message,) = first.messages
    return replace(first, messages=(replace(message, **fields),))


async def _append(organization: OrganizationStore, request: AppendRequest) -> AppendReceipt:
    return await organization.append_messages(request, actor=ACTOR, quota=UNBOUNDED)


async def test_the_same_request_again_is_answered_as_the_first(
    organization: OrganizationStore,
) -> None:
    first = await _append(organization, REQUEST)
    reordered = _changed(REQUEST, metadata={"line": "blue", "pier": 4})

    again = await _append(organization, reordered)

    assert again == replace(first, repeated=True)
    assert (await organization.counters()).messages == 1


@pytest.mark.parametrize("difference", ANOTHER)
async def test_another_request_under_the_same_key_is_a_conflict_and_stores_nothing(
    organization: OrganizationStore, difference: str
) -> None:
    await _append(organization, REQUEST)

    with pytest.raises(IdempotencyConflictError):
        await _append(organization, ANOTHER[difference](REQUEST))

    assert (await organization.counters()).messages == 1


async def test_the_same_messages_for_another_conversation_are_a_conflict(
    organization: OrganizationStore,
) -> None:
    await _append(organization, REQUEST)
    elsewhere = await begin(organization, title="Elsewhere")

    with pytest.raises(IdempotencyConflictError):
        await _append(organization, replace(REQUEST, conversation_id=elsewhere))


async def test_a_key_may_stand_for_another_request_after_a_day(
    organization: OrganizationStore, clock: FakeClock
) -> None:
    await _append(organization, REQUEST)
    clock.advance(timedelta(hours=24))

    receipt = await _append(organization, ANOTHER["content"](REQUEST))

    assert not receipt.repeated
    assert (await organization.counters()).messages == 2


async def test_a_key_of_an_older_version_repeats_whatever_comes_with_it(
    organization: OrganizationStore, tmp_path: Path
) -> None:
    first = await _append(organization, REQUEST)
    damage(tmp_path, organization, "UPDATE idempotency SET request_sha256 = NULL")

    again = await _append(organization, ANOTHER["content"](REQUEST))

    assert again == replace(first, repeated=True)
