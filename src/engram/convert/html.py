"""Convert HTML to text, with headings, paragraphs, lists, tables and code as in Markdown.

No tree is built, so that deep nesting costs nothing.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

_READ_BYTES = 65_536
_META_BYTES = 4_096
_META = re.compile(rb"<meta[^>]([^>]*+)", re.IGNORECASE)
_CHARSET = re.compile(rb"charset\s*+=\s*+[\"']?+\s*+([\w.:-]++)", re.IGNORECASE)
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SPACE = re.compile(r"\s+")
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_SKIPPED = frozenset({"script", "style", "template", "svg", "math", "iframe", "object", "noframes"})
_PARAGRAPHS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "main",
        "nav",
        "ol",
        "p",
        "section",
        "summary",
        "table",
        "title",
        "ul",
    ]
)
_LONG_REFERENCE = re.compile(r"&#[0-9]{8,}")
_CELLS = frozenset({"td", "th"})


def convert_html(
    source: Path, write: Callable[[str], object], *, charset: str | None = None
) -> None:
    """Write the text of an HTML file.

    Args:
        charset: the declared encoding; by default the one that the file names itself.
    """
    with source.open("rb") as file:
        encoding = _encoding(file.read(_READ_BYTES), charset)
        file.seek(0)
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        writer = HtmlWriter(write)
        while data := file.read(_READ_BYTES):
            writer.feed(decoder.decode(data))
        writer.feed(decoder.decode(b"", final=True))
        writer.close()


class HtmlWriter(HTMLParser):
    """Streaming parser that writes the text of the HTML it is fed."""

    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__(convert_charrefs=True)
        self._write = write
        self._gap = ""
        """White space to write before the next word, if there is one."""
        self._is_begun = False
        self._is_at_line_start = False
        self._skipped: str | None = None
        self._skipped_depth = 0
        self._code_depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Handle an opening tag."""
        if self._skipped is not None:
            self._skipped_depth += tag == self._skipped
        elif tag in _SKIPPED:
            self._skipped, self._skipped_depth = tag, 1
        elif tag == "img":
            self.handle_data(dict(attrs).get("alt") or "")
        else:
            self._open(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Treat `<tag/>` as `<tag>`, as HTML does, except for embedded XML."""
        if tag not in {"svg", "math"}:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """Handle a closing tag."""
        if self._skipped is not None:
            self._skipped_depth -= tag == self._skipped
            if self._skipped_depth == 0:
                self._skipped = None
        elif tag == "pre" and self._code_depth:
            self._code_depth -= 1
            self._emit("```", gap="" if self._is_at_line_start else "\n")
            self._gap = "\n\n"
        elif tag in _PARAGRAPHS or tag in _HEADINGS:
            self._gap = "\n\n"

    def feed(self, data: str) -> None:
        """Read more HTML; a reference to a character far beyond Unicode is shortened to one just beyond."""
        # The parser converts its digits, which Python refuses for thousands of them.
        self.rawdata = _LONG_REFERENCE.sub("&#9999999", self.rawdata + data)
        super().feed("")

    def parse_marked_section(self, i: int, report: bool = True) -> int:  # noqa: FBT001, FBT002 as the parser calls it
        """Skip a section that HTML does not know as a browser does, up to the next `>`."""
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:
            return self.parse_bogus_comment(i, report)

    def handle_data(self, data: str) -> None:
        """Write text, collapsing white space outside of code."""
        if self._skipped is not None:
            return
        if self._code_depth:
            self._emit(data, gap="")
            return
        words = _SPACE.sub(" ", data)
        if words.startswith(" "):
            self._gap = self._gap or " "
        if words.strip():
            self._emit(words.strip(), gap=self._gap)
            self._gap = " " if words.endswith(" ") else ""

    def _open(self, tag: str) -> None:
        if tag in _HEADINGS:
            self._emit(_HEADINGS[tag], gap="\n\n")
        elif tag == "pre":
            self._emit("```\n", gap="\n\n")
            self._code_depth += 1
        elif tag == "li":
            self._emit("- ", gap="\n")
        elif tag in _CELLS:
            self._gap = self._gap if "\n" in self._gap else " | "
        elif tag in {"br", "tr", "option"}:
            self._gap = self._gap if self._gap == "\n\n" else "\n"
        elif tag in _PARAGRAPHS:
            self._gap = "\n\n"

    def _emit(self, text: str, *, gap: str) -> None:
        """Write text after a gap, which is dropped at the beginning of the output."""
        if gap and self._is_begun:
            self._write(gap)
        if text:
            self._write(text)
            self._is_begun = True
            self._is_at_line_start = text.endswith("\n")
        self._gap = ""


def _encoding(head: bytes, charset: str | None) -> str:
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return encoding
    for name in (charset, _meta_charset(head[:_META_BYTES])):
        if name and _is_known(name):
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "windows-1252"
    return "utf-8"


def _meta_charset(head: bytes) -> str | None:
    """Return the encoding that the first `meta` tag with a charset names."""
    for tag in _META.finditer(head):
        named: list[bytes] = _CHARSET.findall(tag[1])
        if named:
            return named[-1].decode("ascii")
    return None


def _is_known(charset: str) -> bool:
    try:
        # Also rejects codecs such as `hex` that do not decode to text.
        b"x".decode(charset)
    except (LookupError, UnicodeError):
        return False
    return True
