"""Textual edits of JSON, TOML and YAML: they add what they should and take back every byte of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from engram.clients import jsonc, toml, yaml
from engram.clients.edits import AddItem, SetKey, Syntax, apply, undo
from engram.clients.syntax import UnreadableError, value_at
from tests.clients.documents import VALUES, json_documents, toml_documents, yaml_documents

ENTRY = {"command": "/opt/engram", "args": ["mcp"], "env": {"ENGRAM_HOME": "/store"}}
SERVER = SetKey(at=("mcpServers", "engram"), value=ENTRY)
OTHER = SetKey(at=("mcpServers", "other"), value={"command": "x"})


@given(json_documents())
def test_an_entry_in_any_json_is_taken_back_byte_for_byte(text: str) -> None:
    edited = apply(text, SERVER, syntax="json")

    assert value_at(jsonc.parse(edited), SERVER.at) == ENTRY
    assert apply(edited, SERVER, syntax="json") == edited
    assert undo(edited, SERVER, syntax="json", original=text) == text


@given(json_documents(), st.dictionaries(st.text(max_size=3), VALUES, max_size=3))
def test_what_others_add_after_us_stays_as_they_wrote_it(text: str, value: dict[str, Any]) -> None:
    other = SetKey(at=OTHER.at, value=value)
    assume(value_at(jsonc.parse(text), other.at) is None)
    edited = apply(apply(text, SERVER, syntax="json"), other, syntax="json")

    left = undo(edited, SERVER, syntax="json", original=text)

    assert value_at(jsonc.parse(left), other.at) == value
    assert undo(left, other, syntax="json", original=text) == text


@given(json_documents(), VALUES)
def test_an_item_of_any_array_is_taken_back_byte_for_byte(text: str, value: Any) -> None:
    item = AddItem(at=("b",), value={"hook": value, "command": "engram hook"}, mark="engram hook")
    assume(isinstance(jsonc.parse(text).get("b", []), list))

    edited = apply(text, item, syntax="json")

    assert jsonc.parse(edited)["b"][-1] == item.value
    assert undo(edited, item, syntax="json", original=text) == text


@given(
    st.one_of(
        st.tuples(st.just("yaml"), yaml_documents()), st.tuples(st.just("toml"), toml_documents())
    )
)
def test_an_entry_in_any_yaml_or_toml_is_taken_back_byte_for_byte(
    document: tuple[Syntax, str],
) -> None:
    syntax, text = document
    parse = {"toml": toml.parse, "yaml": yaml.parse}[syntax]
    assume(isinstance(parse(text).get("servers", {}), dict))

    edited = apply(text, EDIT, syntax=syntax)

    assert parse(edited)["servers"]["engram"] == ENTRY
    assert undo(edited, EDIT, syntax=syntax, original=text) == text


EDIT = SetKey(at=("servers", "engram"), value=ENTRY)
CASES: dict[Syntax, list[str]] = {
    "toml": [
        "",
        "\n",
        "# only a comment",
        'model = "o4"',
        "a = 1\n",
        "a = 1\r\n\r\n[b]\r\nc = 2\r\n",
        "[servers.other]\ncommand = 'y'\n# the end\n",
        'text = """\n[servers.engram]\n"""\n',
        "list = [\n  1, # one ]\n]\n[[many]]\nx = {y = '['}\n[[many]]\n",
        '[servers.engram]\ncommand = "old"\n\n[servers.engram.env]\nA = "b"\n\n# next\n[z]\n',
        '[z]\n[servers."engram"]\ncommand = "old" # mine\n[y]\n',
    ],
    "yaml": [
        "",
        "# only a comment",
        "a: 1",
        "---\na: 1\n",
        "servers:\n",
        "servers: # none\nb: 2",
        "servers: {}",
        "servers: {} # none\nb: 2\n",
        "servers: ~\n",
        "servers: {a: {b: 1}}\n",
        "{a: 1}\n",
        "# top\na: 1\r\nservers:\r\n    # about b\r\n    b:\r\n        c: [1,\r\n         2]\r\n",
        "servers:\n  b:\n    text: |+\n      kept\n\n\n",
        "last: |\n  no line end",
        "base: &b {x: 1}\nservers:\n  b: *b\nend: 1\n",
        "servers:\n  engram:\n    x: 1 # mine\n  # about z\n  z: 1\n",
        "servers:\n  a: 1\n  engram: {x: 1}\n",
    ],
    "json": [
        '{"servers": {"engram": {"old": 1}}, "b": 2}',
        '{\n\t"servers" : {\n\t\t"engram" : {\n\t\t\t"old":1 // mine\n\t\t}\n\t}\n}',
        '{"servers": {}, "servers": {"last": 1}}',
        "// top\n{ /* nothing */ }\n",
        '{"a": 1 // no comma\r\n}',
    ],
}
WRITTEN = [(syntax, text) for syntax, texts in CASES.items() for text in texts]


@pytest.mark.parametrize(("syntax", "text"), WRITTEN)
def test_an_entry_in_a_file_written_by_hand_is_taken_back(syntax: Syntax, text: str) -> None:
    parse = {"json": jsonc.parse, "toml": toml.parse, "yaml": yaml.parse}[syntax]
    others = {key: value for key, value in parse(text).items() if key != "servers"}

    edited = apply(text, EDIT, syntax=syntax)

    assert parse(edited)["servers"]["engram"] == ENTRY
    assert {key: value for key, value in parse(edited).items() if key != "servers"} == others
    assert undo(edited, EDIT, syntax=syntax, original=text) == text


@pytest.mark.parametrize(
    ("syntax", "text"), [each for each in WRITTEN if each[0] != "json" and each[1][:1] != "{"]
)
def test_what_was_added_below_our_entry_stays_when_it_goes(syntax: Syntax, text: str) -> None:
    parse = {"toml": toml.parse, "yaml": yaml.parse}[syntax]
    added = {"toml": "\n[zz]\nq = 1\n", "yaml": "\nzz: 1\n"}[syntax]
    edited = apply(text, EDIT, syntax=syntax) + added

    left = undo(edited, EDIT, syntax=syntax, original=text)

    assert parse(left) == parse(text + added)
    assert left.startswith(text)
    assert left.endswith(added)


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        ("json", "{"),
        ("json", "{'a': 1}"),
        ("json", '{"a": 1} {}'),
        ("json", '{"a" 1}'),
        ("json", '{"a": 1 "b": 2}'),
        ("json", '{"servers": [1]}'),
        ("json", '{"servers": {"a": tru}}'),
        ("json", "[]"),
        ("json", "// nothing"),
        ("json", '{"a":' + "[" * 300 + "]" * 300 + "}"),
        ("toml", "a = "),
        ("toml", "servers = 1"),
        ("toml", "servers = { a = 1 }"),
        ("toml", "servers.engram.command = 1"),
        ("yaml", "a: [1"),
        ("yaml", "- 1"),
        ("yaml", "a: 1\n---\nb: 2\n"),
        ("yaml", "servers: 3"),
        ("yaml", "x: &x {q: 1}\nservers: *x\n"),
        ("yaml", "{}"),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_refused(syntax: Syntax, text: str) -> None:
    with pytest.raises(UnreadableError):
        apply(text, EDIT, syntax=syntax)


def test_keys_that_somebody_added_to_our_entry_survive_an_update() -> None:
    text = apply("", EDIT, syntax="json").replace('"command"', '"disabled": true, "command"')
    moved = SetKey(at=EDIT.at, value={**ENTRY, "command": "/new/engram"})

    edited = apply(text, moved, syntax="json", previous=EDIT)

    assert jsonc.parse(edited)["servers"]["engram"] == {**moved.value, "disabled": True}


def test_tables_that_codex_added_below_ours_survive_an_update_and_go_with_it() -> None:
    text = apply("[a]\n", EDIT, syntax="toml") + "\n[servers.engram.tools.search]\nx = 'y'\n"
    moved = SetKey(at=EDIT.at, value={**ENTRY, "command": "/new/engram"})

    edited = apply(text, moved, syntax="toml", previous=EDIT)

    assert "[servers.engram.tools.search]\nx = 'y'\n" in edited
    assert toml.parse(edited)["servers"]["engram"]["command"] == "/new/engram"
    assert toml.parse(undo(edited, moved, syntax="toml", original="[a]\n")) == {"a": {}}


def test_an_item_that_was_changed_is_known_by_its_mark() -> None:
    item = AddItem(
        at=("hooks",), value={"command": "/old/engram hook Stop"}, mark="engram hook Stop"
    )
    original = '{"hooks": [1]}'
    text = apply(original, item, syntax="json").replace("/old/", "/else/")

    assert undo(text, item, syntax="json", original=original) == original
