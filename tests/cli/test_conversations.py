"""Keeping, reading and removing conversations from the command line."""

from __future__ import annotations

from dirty_equals import IsPartialDict, IsStr

from tests.cli.commands import Engram
from tests.promises import promise


def test_created_conversation_is_printed_as_its_id_alone(engram: Engram) -> None:
    created = engram("conversations", "create", "--title", "Plans")

    assert created.stdout == IsStr(regex=r"conv_[\w-]{21}\n")


@promise("local")
def test_conversation_comes_back_with_everything_given(engram: Engram) -> None:
    created = engram(
        "conversations", "create", "--title", "Plans", "--agent", "planner", "--project", "home",
        "--tag", "a", "--tag", "b", "--metadata", '{"n": [1, null]}', "--json",
    )  # fmt: skip

    shown = engram("conversations", "show", created.json["conversation_id"], "--json").json

    assert shown["conversation"] == IsPartialDict(
        title="Plans",
        agent_id="planner",
        project="home",
        tags=["a", "b"],
        metadata={"n": [1, None]},
        message_count=0,
    )


def test_texts_of_one_append_keep_their_order(engram: Engram) -> None:
    appended = engram("conversations", "append", "one", "two", "--role", "tool", "--json").json

    shown = engram("conversations", "show", appended["conversation_id"], "--json").json

    assert [(m["sequence"], m["role"], m["content"]) for m in shown["messages"]] == [
        (1, "tool", "one"),
        (2, "tool", "two"),
    ]
    assert [m["id"] for m in shown["messages"]] == appended["message_ids"]


def test_append_without_a_conversation_goes_to_the_default_one(engram: Engram) -> None:
    engram("conversations", "append", "remember this")
    engram("conversations", "append", "and this")

    listed = engram("conversations", "list", "--json").json

    assert listed["total"] == 1
    assert listed["conversations"][0] == IsPartialDict(title="Memory", message_count=2)


@promise("verbatim")
def test_piped_text_is_kept_to_the_last_byte(engram: Engram) -> None:
    text = "first\r\nsecond\r\0\x1b[31mred\x1b[0m ü 🙂\n\n"

    appended = engram("conversations", "append", "--json", stdin=text.encode()).json

    shown = engram("conversations", "show", appended["conversation_id"], "--json").json
    assert shown["messages"][0]["content"] == text


def test_append_names_speaker_and_time(engram: Engram, conversation: str) -> None:
    appended = engram(
        "conversations", "append", "hi", "-c", conversation, "--name", "Ann",
        "--occurred-at", "2024-05-01T12:00:00+02:00", "--json",
    ).json  # fmt: skip

    shown = engram(
        "conversations", "show", conversation, "--around", str(appended["last_sequence"]),
        "--limit", "1", "--json",
    ).json  # fmt: skip

    assert shown["messages"][0] == IsPartialDict(
        name="Ann", occurred_at="2024-05-01T10:00:00.000000Z"
    )


@promise("idempotent")
def test_repeated_idempotency_key_stores_nothing_again(engram: Engram) -> None:
    first = engram("conversations", "append", "once", "--idempotency-key", "k", "--json").json
    again = engram("conversations", "append", "once", "--idempotency-key", "k", "--json").json

    assert again == first


@promise("idempotent")
def test_another_message_with_the_same_idempotency_key_is_refused(engram: Engram) -> None:
    engram("conversations", "append", "once", "--idempotency-key", "k")

    refused = engram("conversations", "append", "twice", "--idempotency-key", "k")

    assert refused.status != 0
    assert "error: idempotency_conflict: " in refused.stderr


def test_list_filters_sorts_and_pages(engram: Engram, conversation: str) -> None:
    engram("conversations", "create", "--title", "Other", "--project", "side")

    by_tag = engram("conversations", "list", "--tag", "travel", "--json").json
    by_project = engram("conversations", "list", "--project", "side", "--json").json
    first = engram(
        "conversations", "list", "--sort", "message_count", "--limit", "1", "--json"
    ).json

    assert [item["id"] for item in by_tag["conversations"]] == [conversation]
    assert [item["title"] for item in by_project["conversations"]] == ["Other"]
    assert (first["conversations"][0]["id"], first["total"], first["next_offset"]) == (
        conversation,
        2,
        1,
    )


def test_list_shows_a_table_and_says_how_to_go_on(engram: Engram, conversation: str) -> None:
    engram("conversations", "create", "--title", "Other")

    listed = engram("conversations", "list", "--sort", "message_count", "--limit", "1")

    head, row = listed.stdout.splitlines()
    assert head.split()[:3] == ["ID", "TITLE", "MESSAGES"]
    assert row.split()[:3] == [conversation, "Lisbon", "3"]
    assert listed.stderr == "1 of 2 conversations; continue with --offset 1\n"


def test_show_reads_like_a_conversation(engram: Engram, conversation: str) -> None:
    shown = engram("conversations", "show", conversation)

    assert shown.stdout.splitlines() == [
        f"Lisbon [travel]  {conversation}  project default",
        "",
        IsStr(regex=r"user  #1  \d{4}-\d\d-\d\d \d\d:\d\dZ"),
        "  When do we fly to Lisbon?",
        "",
        IsStr(regex=r"assistant  #2  \d{4}-\d\d-\d\d \d\d:\d\dZ"),
        "  The flight to Lisbon leaves on Friday.",
        "",
        IsStr(regex=r"user  #3  \d{4}-\d\d-\d\d \d\d:\d\dZ"),
        "  Please book a hotel near the river.",
    ]
    assert shown.stderr == "3 of 3 messages\n"


def test_deleted_conversation_is_gone(engram: Engram, conversation: str) -> None:
    deleted = engram("conversations", "delete", conversation, "--forever", "--yes", "--json").json

    assert deleted == {
        "deleted": True, "messages": 3, "chunks": 1, "vectors": 0, "receipt": IsStr(regex="aud_.+"),
    }  # fmt: skip
    assert engram("conversations", "show", conversation).status == 2
    assert engram("search", "Lisbon", "--json").json["results"] == []


def test_delete_refuses_without_a_terminal_and_without_yes(
    engram: Engram, conversation: str
) -> None:
    refused = engram("conversations", "delete", conversation, "--forever")

    assert refused.status == 2
    assert "--yes" in refused.stderr
    assert engram("conversations", "show", conversation).status == 0


def test_a_conversation_is_renamed_and_moved(engram: Engram) -> None:
    created = engram("conversations", "create", "--title", "Plans", "--tag", "a").stdout.strip()

    printed = engram("conversations", "edit", created, "--title", "Aims", "--project", "home")
    edited = engram("conversations", "edit", created, "--no-tags", "--json").json

    assert printed.stdout == f"changed project, title of {created}\n"
    assert edited == IsPartialDict(conversation_id=created, edited=["tags"])
    shown = engram("conversations", "show", created, "--json").json
    assert shown["conversation"] == IsPartialDict(title="Aims", project="home", tags=[])
