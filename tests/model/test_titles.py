"""What messages are called in searches: speakers by their name, documents by their title."""

from __future__ import annotations

import pytest

from engram.model.conversation import MessageDraft, called

TITLE = "Lighthouses of the north"


def document(content: str, *, name: str | None = None) -> MessageDraft:
    return MessageDraft(role="document", content=content, name=name)


def test_a_document_is_called_by_the_title_of_its_conversation() -> None:
    assert called(document("They burn all night."), title=TITLE) == TITLE


def test_whoever_has_a_name_is_called_by_it() -> None:
    assert called(document("They burn.", name="The keeper"), title=TITLE) == "The keeper"
    assert called(MessageDraft(role="user", content="They burn."), title=TITLE) is None


@pytest.mark.parametrize(
    "content",
    [
        "Lighthouses of the north",
        "LIGHTHOUSES OF THE NORTH. They burn all night.",
        "lighthouses of\r\n   the north, and how they burn",
        "\n# Lighthouses of the north\n\nThey burn all night.",
    ],
)
def test_a_title_that_the_document_begins_with_is_not_told_again(content: str) -> None:
    assert called(document(content), title=TITLE) is None
    assert called(document(content), title=f" {TITLE}.") is None


@pytest.mark.parametrize(
    "content", ["Lighthouses of the northern sea", "About the lighthouses of the north", "Lig"]
)
def test_a_document_that_only_resembles_its_title_is_called_by_it(content: str) -> None:
    assert called(document(content), title=TITLE) == TITLE


@pytest.mark.parametrize("title", [None, "", " "])
def test_without_a_title_there_is_nothing_to_be_called_by(title: str | None) -> None:
    assert called(document("They burn."), title=title) is None
