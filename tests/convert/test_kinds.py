"""The kind of a body follows from its declared type, its name or its bytes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.convert.kinds import DOCX_TYPE, declared_charset, document_kind
from tests.convert.files import a_docx, a_pdf
from tests.patterns.growth import measure_growth

PDF = a_pdf([["words"]])
DOCX = a_docx("")


@pytest.mark.parametrize(
    ("head", "media_type", "name", "kind"),
    [
        (b"words", None, None, "text"),
        (b"", None, None, "text"),
        (b"words", "text/markdown; charset=utf-8", None, "text"),
        (b"{}", "application/json", "a.json", "text"),
        (b"words", "Text/HTML; charset=utf-8", None, "html"),
        (b"words", "application/xhtml+xml", None, "html"),
        (b"words", None, "page.HTM", "html"),
        (b"\n <!DOCTYPE html><p>", None, None, "html"),
        (b"\xef\xbb\xbf<!-- x --><html lang=en>", "application/octet-stream", None, "html"),
        (b"<!-- a --> <!----> <!doctype  HTML>", None, None, "html"),
        (b"<!-- never closed <html>", None, None, "text"),
        (b"<!-- a --> x <html>", None, None, "text"),
        (b"<!DOCTYPE html>", "text/plain", None, "text"),
        (b"<html>", None, "notes.txt", "text"),
        (b"<htmlish>", None, None, "text"),
        (PDF, None, None, "pdf"),
        (PDF, "application/octet-stream", "scan", "pdf"),
        (b"junk" + PDF, None, "x.bin", "pdf"),
        (b"%PDF-1.4 is how a PDF begins", "text/plain", None, "text"),
        (b"words", "application/pdf", None, "pdf"),
        (DOCX, None, None, "docx"),
        (DOCX, DOCX_TYPE, None, "docx"),
        (b"PK\x03\x04 other", None, None, "text"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", None, None, "docx"),
        (b"words", None, "old.doc", "docx"),
    ],
)
def test_the_kind_of_a_body(
    head: bytes, media_type: str | None, name: str | None, kind: str
) -> None:
    assert kind == document_kind(head, media_type=media_type, name=name)


@pytest.mark.parametrize(
    ("media_type", "charset"),
    [
        (None, None),
        ("text/html", None),
        ("text/html; charset=ISO-8859-1", "ISO-8859-1"),
        ('text/html;charset="utf-8"; x=y', "utf-8"),
    ],
)
def test_the_character_set_of_a_media_type(media_type: str | None, charset: str | None) -> None:
    assert charset == declared_charset(media_type)


@pytest.mark.parametrize("unit", ["<!---->", "<!-- ", "-->", " ", "<!-- --> "])
def test_any_number_of_comments_is_read_once(unit: str) -> None:
    def work(size: int) -> Callable[[], object]:
        head = (unit * (size // len(unit)) + "x").encode()
        return lambda: document_kind(head)

    growth = measure_growth(work)

    assert growth.is_linear, growth
