"""Random documents in random formatting, as people and programs leave them."""

from __future__ import annotations

import json
from typing import Any, cast

import yaml
from hypothesis import strategies as st

WORDS = st.sampled_from(
    ["a", "b", "mcpServers", "servers", "engram", "x y", 'q"\\', "ü", "//", "{"]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(-2, 2), WORDS, st.text(max_size=5)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(WORDS, inner, max_size=3)),
    max_leaves=8,
)


@st.composite
def json_documents(draw: st.DrawFn) -> str:
    """Return JSON with comments, trailing commas and blanks anywhere, or no JSON at all yet."""
    newline = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    blanks = st.sampled_from(
        [
            "",
            "",
            " ",
            "\t",
            newline,
            f"{newline}  ",
            f"{newline}\t",
            f" // c }}{newline}",
            " /* , */ ",
        ]
    )

    def blank() -> str:
        return draw(blanks)

    def render(value: Any) -> str:
        if isinstance(value, dict):
            members = [
                f"{json.dumps(key)}{blank()}:{blank()}{render(each)}"
                for key, each in cast("dict[str, Any]", value).items()
            ]
            return "{" + listed(members) + "}"
        if isinstance(value, list):
            return "[" + listed([render(each) for each in cast("list[Any]", value)]) + "]"
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def listed(parts: list[str]) -> str:
        text = blank()
        for index, part in enumerate(parts):
            is_last = index + 1 == len(parts)
            comma = draw(st.sampled_from(["", ","])) if is_last else ","
            text += blank() + part + blank() + comma + blank()
        return text

    root = draw(st.dictionaries(WORDS, VALUES, max_size=4))
    if isinstance(root.get("mcpServers"), dict) or draw(st.booleans()):
        servers = draw(st.dictionaries(WORDS, VALUES, max_size=3))
        root["mcpServers"] = servers
    else:
        root.pop("mcpServers", None)
    text = render(root)
    return draw(
        st.sampled_from(
            [text, f"{blank()}{text}{blank()}", draw(st.sampled_from(["", newline, " "]))]
        )
    )


def _finished(draw: st.DrawFn, text: str) -> str:
    """Return a text with the line ends of one system, and perhaps without the last one."""
    text = text.removesuffix("\n") if draw(st.booleans()) else text
    return text.replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n"])))


@st.composite
def yaml_documents(draw: st.DrawFn) -> str:
    """Return YAML in block and flow style, with comments between the lines."""
    document = draw(st.dictionaries(WORDS, VALUES, max_size=3))
    if draw(st.booleans()):
        document["servers"] = draw(st.dictionaries(WORDS, VALUES, max_size=3))
    text = yaml.safe_dump(
        document,
        default_flow_style=draw(st.sampled_from([False, False, None])),
        indent=draw(st.sampled_from([2, 4])),
        allow_unicode=draw(st.booleans()),
        sort_keys=False,
    )
    head = draw(st.sampled_from(["", "# head\n", "---\n", "\n# head\n\n"]))
    tail = draw(st.sampled_from(["", "# tail\n", "\n\n"]))
    return _finished(draw, head + ("" if text == "{}\n" else text) + tail)


@st.composite
def toml_documents(draw: st.DrawFn) -> str:
    """Return TOML with tables in any order, comments, and values over several lines."""
    values = st.sampled_from(
        [
            "1",
            "'[x]'",
            '"""\n[servers.engram]\n"""',
            "[ 1,\n # ]\n 2 ]",
            "{ a = '#' }",
            "1979-05-27",
        ]
    )
    names = st.sampled_from(["servers.a", "servers.b.c", "x", '"y z"', "servers . d", "z"])
    between = st.sampled_from(["", "\n", "# comment [t]\n", "\n  # c\n\n"])
    text = draw(between)
    for key in draw(st.lists(st.sampled_from(["k", "l", "m"]), unique=True)):
        text += f"{key} = {draw(values)}\n{draw(between)}"
    for name in draw(st.lists(names, unique=True, max_size=4)):
        text += f"[{name}] # t\n{draw(between)}"
        for key in draw(st.lists(st.sampled_from(["k", "l"]), unique=True)):
            text += f"  {key} = {draw(values)} # v\n{draw(between)}"
    return _finished(draw, text)
