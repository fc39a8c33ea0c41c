"""Convert DOCX to text, after checking that the archive is not a decompression bomb."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from engram.convert.html import HtmlWriter
from engram.errors import ConversionError, ConverterMissingError
from engram.limits import ARCHIVE_BYTES_MAX, ARCHIVE_ENTRIES_MAX, ARCHIVE_RATIO_MAX

_BODY = "word/document.xml"
_RATIO_BYTES_MIN = 8 * 1024 * 1024
"""The compression ratio of smaller archives is not checked."""

_ENCRYPTED = 0x1


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
    if unpacked > ARCHIVE_BYTES_MAX or (unpacked > _RATIO_BYTES_MIN and ratio > ARCHIVE_RATIO_MAX):
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
