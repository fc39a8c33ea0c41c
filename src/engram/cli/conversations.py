"""`engram conversations`: list, show, create, append, edit, delete."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engram.cli.invocation import Invocation
from engram.cli.operations import Given, call, request_options
from engram.cli.options import read_texts
from engram.cli.output import (
    INDENT,
    bracketed,
    counted,
    page_summary,
    print_line,
    print_notice,
    print_text,
    print_wrapped,
    progress,
    short_time,
    show_table,
    styled,
    visible_line,
)
from engram.cli.trash import tell_restorable
from engram.errors import InvalidRequestError
from engram.model.conversation import MessageDraft, Role

if TYPE_CHECKING:
    from engram.api.conversations import ConversationCreated, ConversationEdited
    from engram.model.conversation import (
        AppendReceipt,
        ConversationPage,
        DeletionReceipt,
        Message,
        MessagePage,
    )


def print_conversations(answer: ConversationPage) -> None:
    """List conversations, most recently updated first.

    Examples:
      engram conversations list
      engram conversations list --tag work --sort message_count --limit 50
      engram conversations list --json | jq -r '.conversations[].id'
    """
    if answer.conversations:
        show_table(
            ("ID", "TITLE", "MESSAGES", "UPDATED", "PROJECT", "AGENT", "TAGS"),
            (
                (
                    each.id,
                    each.title or "",
                    f"{each.message_count:,}",
                    short_time(each.updated_at),
                    each.project,
                    each.agent_id or "",
                    ", ".join(each.tags),
                )
                for each in answer.conversations
            ),
        )
    shown = len(answer.conversations)
    print_notice(page_summary(shown, answer.total, answer.next_offset, "conversation"))


def print_conversation(answer: MessagePage) -> None:
    """Show one page of a conversation's messages, verbatim.

    Examples:
      engram conversations show conv_…
      engram conversations show conv_… --around 42 --limit 11
      engram conversations show conv_… --json | jq -r '.messages[].content'
    """
    conversation = answer.conversation
    title = visible_line(conversation.title or "untitled")
    tags = bracketed(conversation.tags)
    place = styled(f"{conversation.id}  project {visible_line(conversation.project)}", dim=True)
    print_wrapped(f"{styled(title, bold=True)}{tags}  {place}")
    for message in answer.messages:
        print_line()
        print_message(message)
    print_notice(page_summary(len(answer.messages), answer.total, answer.next_offset, "message"))


def print_created(answer: ConversationCreated) -> None:
    """Create a conversation and print its id.

    Examples:
      engram conversations create --title "Release 2.0" --tag work
      id=$(engram conversations create --title Import)
      engram conversations append --jsonl chat.jsonl --conversation "$id"
    """
    print_line(answer.conversation_id)


def print_edited(answer: ConversationEdited) -> None:
    """Rename a conversation, change its tags or metadata, or move it to another project.

    Examples:
      engram conversations edit conv_… --title "Release 2.1"
      engram conversations edit conv_… --project shop --tag work --tag release
      engram conversations edit conv_… --no-title --no-tags
    """
    print_line(f"changed {', '.join(answer.edited)} of {answer.conversation_id}")


def print_deleted(answer: DeletionReceipt) -> None:
    """Move a conversation to the trash, or delete it for good with --forever.

    Examples:
      engram conversations delete conv_…
      engram conversations delete conv_… --forever --yes --json
    """
    gone = f"{counted(answer.messages, 'message')}, {counted(answer.chunks, 'chunk')}"
    print_wrapped(f"deleted {gone}; receipt {answer.receipt}")
    tell_restorable(answer.restorable_until, answer.conversation_id)


Texts = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT", help="Messages. [default: stdin]", show_default=False),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--conversation",
        "-c",
        metavar="ID",
        help="Conversation id. [default: the conversation 'Memory']",
    ),
]
Speaker = Annotated[Role | None, typer.Option(help="Role of the speaker. [default: user]")]
Jsonl = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Append one message per line of a JSONL file; - is stdin."),
]
IdempotencyKey = Annotated[
    str | None,
    typer.Option(metavar="KEY", help="Repeating a key within 24 h stores nothing twice."),
]


@request_options(MessageDraft, without=("role", "content"))
def append(
    invocation: Invocation,
    text: Texts = None,
    *,
    conversation: Target = None,
    role: Speaker = None,
    given: Given,
    jsonl: Jsonl = None,
    idempotency_key: IdempotencyKey = None,
) -> None:
    """Append messages verbatim; they are durable and searchable when this returns.

    Examples:
      engram conversations append "The deploy key is in the vault"
      engram conversations append "Noted." --role assistant --conversation conv_…
      git log -1 | engram conversations append --role tool --name git
      engram conversations append --jsonl chat.jsonl --conversation conv_…

    Each line of a JSONL file is one message:
      {"role": "user", "content": "Hello", "name": "Ann",
       "occurred_at": "2024-05-01T12:00:00Z", "metadata": {"channel": "mail"}}
    (on one line; role and content are required). All lines are validated before
    the first is stored. With --idempotency-key an interrupted import can be
    repeated within 24 hours without storing anything twice.
    """
    answer: AppendReceipt
    if jsonl is None:
        texts = read_texts(
            text, missing="no text given: pass TEXT or --jsonl FILE, or pipe text in"
        )
        messages = [{**given, "role": role or "user", "content": each} for each in texts]
        target = {"conversation_id": conversation, "idempotency_key": idempotency_key}
        named = {name: value for name, value in target.items() if value is not None}
        answer = call(invocation, "append_messages", {"messages": messages, **named})
    elif text or role or given:
        message = (
            "cannot be combined with TEXT or message options; each line of the file has its own"
        )
        raise InvalidRequestError(message, field="jsonl")
    else:
        answer = _append_file(invocation, jsonl, conversation, idempotency_key)
    invocation.show(answer, lambda: print_wrapped(_sentence(answer)))


def _append_file(
    invocation: Invocation, path: Path, conversation: str | None, idempotency_key: str | None
) -> AppendReceipt:
    from engram.cli.importing import import_messages, open_lines, read_drafts

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


def _sentence(answer: AppendReceipt) -> str:
    first, last = answer.first_sequence, answer.last_sequence
    span = f"message {first}" if first == last else f"messages {first}-{last}"
    return f"appended {span} to {answer.conversation_id}"


_ROLE_COLORS = {
    "user": "green",
    "assistant": "cyan",
    "system": "yellow",
    "tool": "magenta",
    "document": "blue",
}


def print_message(message: Message, *, notes: Sequence[str] = (), indent: str = "") -> None:
    """Print a message: speaker, sequence, time and text.

    Args:
        notes: what else is said of the message, in its first line.
    """
    name = message.name or message.tool_name
    speaker = visible_line(f"{name} ({message.role})" if name else message.role)
    timestamp = short_time(message.occurred_at or message.created_at)
    details = [f"#{message.sequence}", timestamp, *notes]
    head = styled(speaker, fg=_ROLE_COLORS[message.role], bold=True)
    print_wrapped(f"{indent}{head}  {styled('  '.join(details), dim=True)}", indent=indent + INDENT)
    print_text(message.content, indent=indent + INDENT)
