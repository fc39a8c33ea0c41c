"""The kinds of text that things are planted in, and how a planted line looks in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from bench.needles import texts
from bench.needles.names import moment, pick


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A kind of text: its blocks, and patterns of what is planted between them.

    `{time}` and `{service}` are filled in beside what is planted.
    """

    name: str
    blocks: Callable[[Random, str], Iterator[str]]
    role: str
    openings: tuple[str, ...]
    """What is said before such a text, about a service."""
    setting: str
    """How a `{name}` is given a `{value}`; this must stand in an answer as it is here."""
    setting_line: str
    """The block around a `{setting}`."""
    error_line: str
    """The block around an error's `{text}`."""
    remark_line: str
    """The block around a sentence, `{text}`."""


CODE_OPENINGS = (
    "Please read this module of {service} before we change it.",
    "Here is the part of {service} that I mean.",
    "This is how {service} does it at the moment.",
)
LOG_OPENINGS = (
    "Something is odd with {service}; this is its log.",
    "I collected what {service} wrote last night.",
    "Can you look through the log of {service}?",
)

FORMS = (
    Form(
        name="log",
        blocks=texts.log_lines,
        role="tool",
        openings=LOG_OPENINGS,
        setting="{name}={value}",
        setting_line="{time} INFO  {service}.config: effective {setting}",
        error_line="{time} ERROR {service}.main: {text}",
        remark_line="{time} INFO  {service}.notes: {text}",
    ),
    Form(
        name="access log",
        blocks=texts.access_lines,
        role="tool",
        openings=LOG_OPENINGS,
        setting="{name}={value}",
        setting_line="# {time} {service} {setting}",
        error_line="[{time}] [error] {service}: {text}",
        remark_line="# {text}",
    ),
    Form(
        name="stack trace",
        blocks=texts.stack_traces,
        role="user",
        openings=("{service} crashed again, all of this was on the console.",),
        setting="{name} = {value}",
        setting_line="    context: {setting}",
        error_line="Caused by: net.example.{service}.Failure: {text}",
        remark_line="    hint: {text}",
    ),
    Form(
        name="JSON",
        blocks=texts.json_objects,
        role="tool",
        openings=("I asked the interface of {service} for everything.",),
        setting='"{name}": "{value}"',
        setting_line='  {{"service": "{service}", "at": "{time}", {setting}}},',
        error_line='  {{"service": "{service}", "at": "{time}", "error": "{text}"}},',
        remark_line='  {{"service": "{service}", "comment": "{text}"}},',
    ),
    Form(
        name="diff",
        blocks=texts.diff_hunks,
        role="user",
        openings=("Review this change of {service}, please.",),
        setting="{name} {value}",
        setting_line="+#define {setting}",
        error_line='+    die("{text}");',
        remark_line="+/* {text} */",
    ),
    Form(
        name="Python",
        blocks=texts.python_functions,
        role="assistant",
        openings=CODE_OPENINGS,
        setting='{name} = "{value}"',
        setting_line="{setting}\n",
        error_line='def fail():\n    raise RuntimeError("{text}")\n',
        remark_line="# {text}\n",
    ),
    Form(
        name="TypeScript",
        blocks=texts.typescript_functions,
        role="assistant",
        openings=CODE_OPENINGS,
        setting="{name}: '{value}'",
        setting_line="export const settings = {{ {setting} }};\n",
        error_line="throw new Error(`{text}`);\n",
        remark_line="// {text}\n",
    ),
    Form(
        name="Go",
        blocks=texts.go_functions,
        role="assistant",
        openings=CODE_OPENINGS,
        setting='{name} = "{value}"',
        setting_line="var {setting}\n",
        error_line='var errFatal = errors.New("{text}")\n',
        remark_line="// {text}\n",
    ),
    Form(
        name="build output",
        blocks=texts.build_lines,
        role="tool",
        openings=("The pipeline of {service} printed this.", "Here is the build of {service}."),
        setting="{name}: {value}",
        setting_line="-- {setting}",
        error_line="error: {text}",
        remark_line="note: {text}",
    ),
)


def opening(chance: Random, form: Form, service: str) -> str:
    """Return what is said before a text."""
    return pick(chance, form.openings).format(service=service)


def planted_line(chance: Random, form: Form, service: str, kind: str, text: str) -> str:
    """Return the block that a setting, an error or a sentence is planted as."""
    patterns = {
        "identifier": form.setting_line,
        "error": form.error_line,
        "fact": form.remark_line,
        "paraphrase": form.remark_line,
    }
    fields = {"time": moment(chance), "service": service, "setting": text, "text": text}
    return patterns[kind].format(**fields)
