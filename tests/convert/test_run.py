"""Documents are converted in a process of their own; failures are errors that state the reason."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engram import limits
from engram.convert.kinds import Kind
from engram.convert.sandbox import ProcessResult, check_outcome, convert_file
from engram.convert.worker import BoundedTextWriter, convert_docx, convert_pdf
from engram.errors import ConversionError, ConverterMissingError
from tests.convert.files import a_docx, a_paragraph, a_pdf
from tests.promises import promise

MEGABYTE = 1_000_000


def convert(
    tmp_path: Path,
    data: bytes,
    kind: Kind,
    *,
    seconds: float = limits.CONVERSION_S,
    memory_bytes: int = limits.CONVERSION_MEMORY_BYTES,
) -> str:
    """Return the text of a file that is converted in another process."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(data)
    convert_file(source, target, kind=kind, seconds=seconds, memory_bytes=memory_bytes)
    assert source.read_bytes() == data
    return target.read_bytes().decode()


def test_html_becomes_text(tmp_path: Path) -> None:
    assert convert(tmp_path, b"<h1>Title</h1><p>words", "html") == "# Title\n\nwords"


def test_pdf_becomes_text_page_by_page(tmp_path: Path) -> None:
    data = a_pdf([["The first page", "has two lines."], [], ["The third."]])

    text = convert(tmp_path, data, "pdf")

    assert text == "The first page\nhas two lines.\n\n\n\nThe third.\n\n"


def test_docx_becomes_text_with_headings(tmp_path: Path) -> None:
    body = a_paragraph("Title", style="Heading1") + a_paragraph("Some words &amp; more.")

    assert convert(tmp_path, a_docx(body), "docx") == "# Title\n\nSome words & more."


@pytest.mark.parametrize(
    ("data", "kind", "reason"),
    [
        (b"", "html", "no text"),
        (b"<script>x</script>", "html", "no text"),
        (b"", "pdf", "cannot be read"),
        (b"words", "pdf", "cannot be read"),
        (a_pdf([["words"]])[:200], "pdf", "cannot be read"),
        (a_pdf([[]]), "pdf", "no text"),
        (b"words", "docx", "not an archive"),
        (a_docx("")[:300], "docx", "not an archive"),
        (a_docx(""), "docx", "no text"),
        (a_docx("<w:p>"), "docx", "cannot be read"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1 old", "docx", "before DOCX"),
        (a_docx("").replace(b"word/document", b"word/anything"), "docx", "no document"),
    ],
)
def test_what_cannot_be_converted_says_why(
    tmp_path: Path, data: bytes, kind: Kind, reason: str
) -> None:
    with pytest.raises(ConversionError, match=reason):
        convert(tmp_path, data, kind)


@promise("fair")
def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    bomb = a_docx("", **{"word/media/zeros": bytes(9 * MEGABYTE)})

    with pytest.raises(ConversionError, match="unpacks to"):
        convert(tmp_path, bomb, "docx")


def test_an_archive_of_many_files_is_refused(tmp_path: Path) -> None:
    many = {f"word/{number}": b"" for number in range(limits.ARCHIVE_ENTRIES_MAX)}

    with pytest.raises(ConversionError, match="more than 10,000 files"):
        convert(tmp_path, a_docx("", **many), "docx")


def test_entities_that_multiply_are_refused(tmp_path: Path) -> None:
    entities = "".join(f'<!ENTITY e{level} "{f"&e{level - 1};" * 10}">' for level in range(1, 12))
    laughs = f'<!DOCTYPE x [<!ENTITY e0 "ha">{entities}]><x>&e11;</x>'.encode()

    with pytest.raises(ConversionError):
        convert(tmp_path, a_docx("", **{"word/document.xml": laughs}), "docx")


def test_parts_nested_too_deeply_are_refused(tmp_path: Path) -> None:
    body = "<w:sdt><w:sdtContent>" * 20_000 + "</w:sdtContent></w:sdt>" * 20_000

    with pytest.raises(ConversionError):
        convert(tmp_path, a_docx(body), "docx")


@promise("fair")
def test_a_converter_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"longer than 0\.001 s"):
        convert(tmp_path, b"words", "html", seconds=0.001)


@promise("fair")
def test_a_converter_that_needs_too_much_memory_fails_alone(tmp_path: Path) -> None:
    body = a_paragraph("words") * 20_000

    with pytest.raises(ConversionError, match="memory"):
        convert(tmp_path, a_docx(body), "docx", memory_bytes=80 * MEGABYTE)


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 9_000,
        b"{}",
        b'{"code": ["converted"]}',
        b'{"code": "conversion_failed", "message": {"a": 1}}',
        b'{"code": "conversion_failed", "message": "' + b"x" * 9_000 + b'"}',
    ],
)
def test_whatever_a_converter_prints_is_an_outcome(output: bytes) -> None:
    with pytest.raises(ConversionError) as caught:
        check_outcome(ProcessResult(0, output))

    assert len(caught.value.message) <= 600


def test_a_path_that_looks_like_an_option_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("--seconds=0").write_bytes(b"words")

    convert_file(Path("--seconds=0"), Path("--help"), kind="html")

    assert Path("--help").read_bytes() == b"words"


def test_text_beyond_the_bound_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "target").open("wb") as file:
        target = BoundedTextWriter(file, bytes_max=5)
        target.write("été")

        with pytest.raises(ConversionError, match="more than 5 bytes"):
            target.write("x")


@pytest.mark.parametrize(("module", "kind"), [("mammoth", "docx"), ("pypdfium2", "pdf")])
def test_without_the_extra_an_error_names_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    kind: str,
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    source = tmp_path / "source"
    source.write_bytes(a_docx("") if kind == "docx" else a_pdf([["words"]]))
    convert = convert_docx if kind == "docx" else convert_pdf

    with (
        (tmp_path / "target").open("wb") as file,
        pytest.raises(ConverterMissingError, match=r"engram\[documents\]"),
    ):
        convert(source, BoundedTextWriter(file, bytes_max=100).write)
