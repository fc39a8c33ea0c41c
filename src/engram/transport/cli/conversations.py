"""`engram conversations`: list, show, create, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.conversation import ConversationSort, SortOrder
from engram.transport.cli.confirming import Yes, confirm
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import parse, shared_options
from engram.transport.cli.visible import counted, visible_line

if TYPE_CHECKING:
    from engram.transport.answers import ConversationRead, ConversationsListed

LIST_EXAMPLES = """\b
Examples:
  engram conversations list
  engram conversations list --tag work --sort message_count --limit 50
  engram conversations list --json | jq -r '.conversations[].id'
"""

SHOW_EXAMPLES = """\b
Examples:
  engram conversations show conv_…
  engram conversations show conv_… --around 42 --limit 11
  engram conversations show conv_… --json | jq -r '.messages[].content'
"""

CREATE_EXAMPLES = """\b
Examples:
  engram conversations create --title "Release 2.0" --tag work
  id=$(engram conversations create --title Import)
  engram conversations append --jsonl chat.jsonl --conversation "$id"
"""

DELETE_EXAMPLES = """\b
Examples:
  engram conversations delete conv_…
  engram conversations delete conv_… --yes --json
"""

ConversationArgument = Annotated[
    str, typer.Argument(metavar="CONVERSATION", help="The conversation's id.")
]
Page = Annotated[
    int,
    typer.Option(
        "--limit", "-n", min=1, max=limits.CONVERSATION_PAGE_MAX, help="Conversations shown."
    ),
]
Offset = Annotated[int, typer.Option(min=0, help="How many to skip.")]
Agent = Annotated[str | None, typer.Option(metavar="ID", help="Only this agent's.")]
Project = Annotated[str | None, typer.Option(metavar="NAME", help="Only this project.")]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", "-t", metavar="TAG", help="Only with this tag; repeat, all must match."),
]
Sort = Annotated[ConversationSort, typer.Option(help="What to sort by.")]
Order = Annotated[SortOrder, typer.Option(help="Newest or most first, or last.")]
MessagesPage = Annotated[
    int,
    typer.Option("--limit", "-n", min=1, max=limits.MESSAGE_PAGE_MAX, help="Messages shown."),
]
Around = Annotated[int | None, typer.Option(min=1, help="Centre on the message of this sequence.")]
Title = Annotated[str | None, typer.Option(metavar="TEXT", help="What it is about.")]
OwnAgent = Annotated[str | None, typer.Option(metavar="ID", help="The agent that it belongs to.")]
OwnProject = Annotated[str | None, typer.Option(metavar="NAME", help="The project it belongs to.")]
OwnTags = Annotated[
    list[str] | None, typer.Option("--tag", "-t", metavar="TAG", help="A tag; repeat for more.")
]
Metadata = Annotated[str | None, typer.Option(metavar="JSON", help="Facts, as a JSON object.")]


@shared_options
def list_conversations(
    invocation: Invocation,
    *,
    limit: Page = 20,
    offset: Offset = 0,
    agent: Agent = None,
    project: Project = None,
    tag: Tags = None,
    sort: Sort = "updated_at",
    order: Order = "desc",
) -> None:
    """List conversations, the latest first."""
    from engram.transport.answers import conversations_listed
    from engram.transport.requests import ListConversations

    query = parse(
        ListConversations,
        limit=limit,
        offset=offset,
        agent_id=agent,
        project=project,
        tags=tag or None,
        sort=sort,
        order=order,
    ).to_model()
    answer = conversations_listed(
        invocation.run_local(
            lambda service, me: service.conversations.list_conversations(me, query)
        )
    )
    invocation.show(answer, lambda: _print_list(answer))


@shared_options
def show_conversation(
    invocation: Invocation,
    conversation: ConversationArgument,
    *,
    limit: MessagesPage = 100,
    offset: Offset = 0,
    around: Around = None,
) -> None:
    """Show one page of a conversation's messages, verbatim."""
    from engram.transport.answers import conversation_read
    from engram.transport.requests import GetConversation

    query = parse(
        GetConversation,
        conversation_id=conversation,
        message_limit=limit,
        message_offset=offset,
        around_sequence=around,
    ).to_model()
    answer = conversation_read(
        invocation.run_local(lambda service, me: service.conversations.get_conversation(me, query))
    )
    invocation.show(answer, lambda: _print_conversation(answer))


@shared_options
def create_conversation(
    invocation: Invocation,
    *,
    title: Title = None,
    agent: OwnAgent = None,
    project: OwnProject = None,
    tag: OwnTags = None,
    metadata: Metadata = None,
) -> None:
    """Begin a conversation and print its id."""
    from engram.transport.cli.output import say
    from engram.transport.requests import CreateConversation

    draft = parse(
        CreateConversation,
        title=title,
        agent_id=agent,
        project=project,
        tags=tag or None,
        metadata=_parse_metadata(metadata),
    ).to_model()
    conversation_id = invocation.run_local(
        lambda service, me: service.conversations.create_conversation(me, draft)
    )
    invocation.show({"conversation_id": conversation_id}, lambda: say(conversation_id))


@shared_options
def delete_conversation(
    invocation: Invocation, conversation: ConversationArgument, *, yes: Yes = False
) -> None:
    """Remove a conversation with everything derived from it; this cannot be undone."""
    from engram.model.ids import ConversationId
    from engram.transport.answers import conversation_deleted
    from engram.transport.cli.output import say

    confirm(f"Delete the conversation {conversation} for good?", yes=yes)
    answer = conversation_deleted(
        invocation.run_local(
            lambda service, me: service.conversations.delete_conversation(
                me, ConversationId(conversation)
            )
        )
    )
    gone = f"deleted {counted(answer['messages'], 'message')}, {counted(answer['chunks'], 'chunk')}"
    invocation.show(answer, lambda: say(f"{gone}; receipt {answer['receipt']}"))


def _parse_metadata(text: str | None) -> Any:
    if text is None:
        return None
    import json

    try:
        return json.loads(text)
    except ValueError as exc:
        raise InvalidRequestError(f"is not JSON: {exc}", field="metadata") from exc


def _print_list(answer: ConversationsListed) -> None:
    from engram.transport.cli.moments import short_time
    from engram.transport.cli.output import notice, show_table
    from engram.transport.cli.paging import page_notice

    if answer["conversations"]:
        show_table(
            ("ID", "TITLE", "MESSAGES", "UPDATED", "PROJECT", "AGENT", "TAGS"),
            (
                (
                    item["id"],
                    item["title"] or "",
                    f"{item['message_count']:,}",
                    short_time(item["updated_at"]),
                    item["project"],
                    item["agent_id"] or "",
                    ", ".join(item["tags"]),
                )
                for item in answer["conversations"]
            ),
        )
    shown = len(answer["conversations"])
    notice(page_notice(shown, answer["total"], answer["next_offset"], "conversation"))


def _print_conversation(answer: ConversationRead) -> None:
    from engram.transport.cli.output import notice, paint, say
    from engram.transport.cli.paging import page_notice
    from engram.transport.cli.transcript import print_message

    conversation = answer["conversation"]
    title = visible_line(conversation["title"] or "untitled")
    tags = "".join(f" [{visible_line(tag)}]" for tag in conversation["tags"])
    facts = paint(
        f"{conversation['id']}  project {visible_line(conversation['project'])}", dim=True
    )
    say(f"{paint(title, bold=True)}{tags}  {facts}")
    for message in answer["messages"]:
        say()
        print_message(message)
    shown = len(answer["messages"])
    notice(page_notice(shown, answer["total"], answer["next_offset"], "message"))
