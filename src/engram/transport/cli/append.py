"""`engram conversations append`: from arguments, from a pipe, or many from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engram.errors import InvalidRequestError
from engram.model.conversation import Role
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import parse, shared_options
from engram.transport.cli.texts import given_texts

if TYPE_CHECKING:
    from engram.model.conversation import AppendRequest
    from engram.transport.answers import MessagesAppended

EXAMPLES = """\b
Examples:
  engram conversations append "The deploy key is in the vault"
  engram conversations append "Noted." --role assistant --conversation conv_…
  git log -1 | engram conversations append --role tool --name git
  engram conversations append --jsonl chat.jsonl --conversation conv_…
\b
Each line of a JSONL file is one message:
  {"role": "user", "content": "Hello", "name": "Ann",
   "occurred_at": "2024-05-01T12:00:00Z", "metadata": {"channel": "mail"}}
(on one line; role and content are required). Every line is checked before the
first is stored. With --idempotency-key an interrupted import can be repeated
within 24 hours: what is stored already is not stored again.
"""

Texts = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT", help="Messages; without any, stdin is one.", show_default=False),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--conversation",
        "-c",
        metavar="ID",
        help="Without it the conversation 'Memory' takes them.",
    ),
]
Speaker = Annotated[Role | None, typer.Option(help="Who speaks. [default: user]")]
Name = Annotated[str | None, typer.Option(metavar="NAME", help="The speaker's name.")]
ToolName = Annotated[str | None, typer.Option(metavar="NAME", help="The tool that answered.")]
OccurredAt = Annotated[
    str | None, typer.Option(metavar="WHEN", help="When it was said, if not now.")
]
Jsonl = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Append a message for each line; - is stdin."),
]
IdempotencyKey = Annotated[
    str | None, typer.Option(metavar="KEY", help="The same key within 24 h stores nothing again.")
]


@shared_options
def append(
    invocation: Invocation,
    text: Texts = None,
    *,
    conversation: Target = None,
    role: Speaker = None,
    name: Name = None,
    tool_name: ToolName = None,
    occurred_at: OccurredAt = None,
    jsonl: Jsonl = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Keep messages verbatim; they are durable and findable when this returns."""
    from engram.transport.cli.output import say

    said = {"role": role, "name": name, "tool_name": tool_name, "occurred_at": occurred_at}
    if jsonl is None:
        contents = given_texts(text, missing="give a TEXT, --jsonl FILE, or pipe a text in")
        request = _request(contents, said, conversation, idempotency_key)
        answer = _append_once(invocation, request)
    elif text or any(said.values()):
        raise InvalidRequestError("says all of a message in its lines", field="jsonl")
    else:
        answer = _append_file(invocation, jsonl, conversation, idempotency_key)
    invocation.show(answer, lambda: say(_sentence(answer)))


def _request(
    contents: Sequence[str],
    said: Mapping[str, str | None],
    conversation: str | None,
    idempotency_key: str | None,
) -> AppendRequest:
    from engram.clock import SystemClock
    from engram.transport.cli.moments import past_moment
    from engram.transport.requests import AppendMessages

    said_at = past_moment("occurred-at", said["occurred_at"], now=SystemClock().now())
    shared = {**said, "role": said["role"] or "user", "occurred_at": said_at}
    return parse(
        AppendMessages,
        messages=[{**shared, "content": text} for text in contents],
        conversation_id=conversation,
        idempotency_key=idempotency_key,
    ).to_model()


def _append_once(invocation: Invocation, request: AppendRequest) -> MessagesAppended:
    from engram.transport.answers import messages_appended
    from engram.transport.cli.output import notice

    receipt = invocation.run_local(
        lambda service, me: service.conversations.append_messages(me, request)
    )
    if receipt.quota_warning:
        notice(receipt.quota_warning)
    return messages_appended(receipt)


def _append_file(
    invocation: Invocation, path: Path, conversation: str | None, idempotency_key: str | None
) -> MessagesAppended:
    from engram.transport.cli.importing import import_messages
    from engram.transport.cli.messages import open_lines, read_drafts
    from engram.transport.cli.progress import progress

    with open_lines(path) as file:
        with progress("Checking") as advance:
            total = 0
            for _ in read_drafts(file):
                total += 1
                advance(1)
        with progress("Appending", total=total) as advance:
            return invocation.run_local(
                lambda service, me: import_messages(
                    service,
                    me,
                    read_drafts(file),
                    conversation_id=conversation,
                    idempotency_key=idempotency_key,
                    advance=advance,
                )
            )


def _sentence(answer: MessagesAppended) -> str:
    first, last = answer["first_sequence"], answer["last_sequence"]
    span = f"message {first}" if first == last else f"messages {first}-{last}"
    return f"appended {span} to {answer['conversation_id']}"
