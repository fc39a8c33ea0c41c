"""Storing many messages, one bounded append after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engram.errors import EngramError, InvalidRequestError
from engram.model.access import Principal
from engram.model.conversation import AppendReceipt, AppendRequest, MessageDraft
from engram.model.ids import ConversationId
from engram.service import Service
from engram.transport.answers import MessagesAppended, messages_appended
from engram.transport.cli.messages import batches
from engram.transport.cli.output import notice
from engram.transport.cli.progress import Advance
from engram.transport.cli.visible import counted


async def import_messages(
    service: Service,
    me: Principal,
    drafts: Iterable[MessageDraft],
    *,
    conversation_id: str | None,
    idempotency_key: str | None,
    advance: Advance,
) -> MessagesAppended:
    """Append all drafts to one conversation and return the answer one append would give.

    Raises:
        InvalidRequestError: there is no draft.
    """
    target = None if conversation_id is None else ConversationId(conversation_id)
    receipts = list[AppendReceipt]()
    try:
        for number, batch in enumerate(batches(drafts), start=1):
            request = AppendRequest(
                messages=batch,
                conversation_id=target,
                # A repeated import makes the same batches, so each finds its first receipt.
                idempotency_key=idempotency_key and f"{idempotency_key}:{number}",
            )
            receipt = await service.conversations.append_messages(me, request)
            receipts.append(receipt)
            target = receipt.conversation_id
            advance(len(batch))
    except EngramError:
        stored = sum(len(receipt.message_ids) for receipt in receipts)
        notice(f"stored before this: {counted(stored, 'message')}")
        raise
    await service.background.work(me.organization_id)
    return messages_appended(_joined(receipts))


def _joined(receipts: list[AppendReceipt]) -> AppendReceipt:
    if not receipts:
        raise InvalidRequestError("the file holds no message")
    last = receipts[-1]
    if last.quota_warning:
        notice(last.quota_warning)
    return replace(
        last,
        message_ids=tuple(id_ for receipt in receipts for id_ in receipt.message_ids),
        first_sequence=receipts[0].first_sequence,
    )
