"""Make text of DOCX, once its archive is known to be no bomb."""

from __future__ import annotations

import zipfile
from pathlib import Path

from engram.convert.html import HtmlWriter
from engram.convert.target import TextTarget
from engram.errors import ConversionError, ConverterMissingError
from engram.limits import ARCHIVE_BYTES_MAX, ARCHIVE_ENTRIES_MAX, ARCHIVE_RATIO_MAX

_BODY = "word/document.xml"
_RATIO_BYTES_MIN = 8 * 1024 * 1024
"""Below this an archive may be packed as tightly as it likes."""

_ENCRYPTED = 0x1


def convert_docx(source: Path, target: TextTarget) -> None:
    """Write the text of a DOCX file.

    Raises:
        ConversionError: it is none, damaged, has a password, or unpacks to too much.
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
            file, convert_image=_leave_out, include_embedded_style_map=False
        )
    writer = HtmlWriter(target.write)
    writer.feed(page.value)
    writer.close()


def check_archive(source: Path) -> None:
    """Make sure that a file is a DOCX archive which can be unpacked, before any of it is.

    Reading a part stops at the size its entry tells, so what the entries tell can be trusted.
    """
    try:
        with zipfile.ZipFile(source) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as exc:
        raise ConversionError(_not_docx(source)) from exc
    if len(entries) > ARCHIVE_ENTRIES_MAX:
        raise ConversionError(f"this archive has more than {ARCHIVE_ENTRIES_MAX:,} files")
    if _BODY not in {entry.filename for entry in entries}:
        raise ConversionError("this is no DOCX: the archive has no document in it")
    if any(entry.flag_bits & _ENCRYPTED for entry in entries):
        raise ConversionError("this archive has a password")
    unpacked = sum(entry.file_size for entry in entries)
    ratio = unpacked / source.stat().st_size
    if unpacked > ARCHIVE_BYTES_MAX or (unpacked > _RATIO_BYTES_MIN and ratio > ARCHIVE_RATIO_MAX):
        raise ConversionError(f"this archive unpacks to {unpacked:,} bytes, which is too much")


def _not_docx(source: Path) -> str:
    with source.open("rb") as file:
        is_old = file.read(4) == b"\xd0\xcf\x11\xe0"
    if is_old:
        return (
            "this is a Word file from before DOCX, or one with a password: save it as DOCX without"
        )
    return "this is no DOCX: it is not an archive, or a damaged one"


def _leave_out(_image: object) -> list[object]:
    return []
