"""The converter process: convert one document to text and report the outcome as JSON."""

from __future__ import annotations

import argparse
import json
import zipfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from engram import limits
from engram.convert.html import HtmlWriter, convert_html
from engram.errors import ConversionError, ConverterMissingError
from engram.limits import ARCHIVE_BYTES_MAX, ARCHIVE_ENTRIES_MAX, ARCHIVE_RATIO_MAX, PDF_PAGES_MAX

if TYPE_CHECKING:
    import pypdfium2

_SOFT_HYPHEN = "\x02"
"""What PDFium returns for a hyphen at the end of a line."""

_BODY = "word/document.xml"

_ENCRYPTED = 0x1


class BoundedTextWriter:
    """Writes UTF-8 to a file, up to a number of bytes."""

    def __init__(self, file: BinaryIO, *, bytes_max: int) -> None:
        self._file = file
        self._bytes_max = bytes_max
        self._bytes = 0
        self.has_text = False
        """Whether anything but white space was written."""

    def write(self, text: str) -> None:
        """Append text.

        Raises:
            ConversionError: the text exceeds the limit.
        """
        # Some documents contain lone surrogates and NUL, which stored text cannot.
        data = text.replace("\0", "").encode(errors="replace")
        self._bytes += len(data)
        if self._bytes > self._bytes_max:
            raise ConversionError(f"the document has more than {self._bytes_max:,} bytes of text")
        self._file.write(data)
        self.has_text = self.has_text or not text.isspace()


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert a file and print the outcome as JSON."""
    request = _parser().parse_args(arguments)
    print(json.dumps(_outcome(request)))  # noqa: T201 the parent process reads it
    return 0


def _outcome(request: argparse.Namespace) -> dict[str, str]:
    try:
        _convert(request.kind, request.source, request.target, charset=request.charset)
    except (ConversionError, ConverterMissingError) as exc:
        return {"code": exc.code, "message": exc.message}
    except MemoryError:
        return {
            "code": "conversion_failed",
            "message": "the document needs too much memory to convert",
        }
    except RecursionError:
        return {"code": "conversion_failed", "message": "the document is nested too deeply"}
    except Exception as exc:  # noqa: BLE001 top of the process: libraries may raise anything
        message = f"the document cannot be read: {type(exc).__name__}: {exc}"
        return {"code": "conversion_failed", "message": message[:500]}
    return {"code": "converted", "message": ""}


def _convert(kind: str, source: Path, target: Path, *, charset: str | None) -> None:
    with target.open("wb") as file:
        text = BoundedTextWriter(file, bytes_max=limits.CONVERTED_BYTES_MAX)
        if kind == "html":
            convert_html(source, text.write, charset=charset)
        elif kind == "pdf":
            convert_pdf(source, text.write)
        else:
            convert_docx(source, text.write)
    if not text.has_text:
        raise ConversionError("the document contains no text; scanned pages have none")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="engram.convert", description=__doc__)
    parser.add_argument("kind", choices=["html", "pdf", "docx"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--charset")
    return parser


def convert_pdf(source: Path, write: Callable[[str], object]) -> None:
    """Write the text of a PDF file.

    Raises:
        ConversionError: it is damaged, password-protected or has too many pages.
        ConverterMissingError: the extra is not installed.
    """
    try:
        import pypdfium2
    except ModuleNotFoundError as exc:
        raise ConverterMissingError(
            "PDF needs the extra 'documents': pip install 'engram[documents]'"
        ) from exc
    try:
        document = pypdfium2.PdfDocument(source)
    except pypdfium2.PdfiumError as exc:
        raise ConversionError(f"this PDF cannot be read: {exc}") from exc
    with closing(document):
        if len(document) > PDF_PAGES_MAX:
            raise ConversionError(f"this PDF has more than {PDF_PAGES_MAX:,} pages")
        for number in range(len(document)):
            try:
                text = _page_text(document, number)
            except pypdfium2.PdfiumError:
                # The other pages are still worth indexing.
                text = f"[page {number + 1} cannot be read]"
            write(text.strip() + "\n\n")


def _page_text(document: pypdfium2.PdfDocument, number: int) -> str:
    with closing(document[number]) as page, closing(page.get_textpage()) as words:
        text = words.get_text_bounded()
    return text.replace("\r\n", "\n").replace(_SOFT_HYPHEN, "")


def convert_docx(source: Path, write: Callable[[str], object]) -> None:
    """Write the text of a DOCX file.

    Raises:
        ConversionError: it is not DOCX, damaged, password-protected, or unpacks to too much.
        ConverterMissingError: the extra is not installed.
    """
    check_archive(source)
    try:
        import mammoth
    except ModuleNotFoundError as exc:
        raise ConverterMissingError(
            "DOCX needs the extra 'documents': pip install 'engram[documents]'"
        ) from exc
    with source.open("rb") as file:
        page = mammoth.convert_to_html(
            file, convert_image=_skip_image, include_embedded_style_map=False
        )
    writer = HtmlWriter(write)
    writer.feed(page.value)
    writer.close()


def check_archive(source: Path) -> None:
    """Check the entries of a DOCX archive before any of them is unpacked.

    `zipfile` stops reading a member at the size its entry declares, so the sizes can be trusted.
    """
    try:
        with zipfile.ZipFile(source) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as exc:
        raise ConversionError(_not_docx(source)) from exc
    if len(entries) > ARCHIVE_ENTRIES_MAX:
        raise ConversionError(f"the archive has more than {ARCHIVE_ENTRIES_MAX:,} files")
    if _BODY not in {entry.filename for entry in entries}:
        raise ConversionError("not a DOCX file: the archive has no document in it")
    if any(entry.flag_bits & _ENCRYPTED for entry in entries):
        raise ConversionError("the archive is password-protected")
    unpacked = sum(entry.file_size for entry in entries)
    ratio = unpacked / source.stat().st_size
    if unpacked > ARCHIVE_BYTES_MAX or (
        unpacked > limits.ARCHIVE_RATIO_BYTES_MIN and ratio > ARCHIVE_RATIO_MAX
    ):
        raise ConversionError(f"the archive unpacks to {unpacked:,} bytes, which is too much")


def _not_docx(source: Path) -> str:
    with source.open("rb") as file:
        is_old = file.read(4) == b"\xd0\xcf\x11\xe0"
    if is_old:
        return (
            "this is a Word file from before DOCX or a password-protected one; save it as DOCX "
            "without a password"
        )
    return "not a DOCX file: it is not an archive, or a damaged one"


def _skip_image(_image: object) -> list[object]:
    return []
