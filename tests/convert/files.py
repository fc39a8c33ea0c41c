"""Minimal documents of each kind, built by hand."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence

_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="xml" ContentType="application/xml"/>'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument'
    '.wordprocessingml.document.main+xml"/></Types>'
)
_RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="rId1" Target="word/document.xml" Type="http://schemas.openxmlformats.org/'
    'officeDocument/2006/relationships/officeDocument"/></Relationships>'
)
_BOX = "[0 0 612 792]"
_FONTS = "/Resources << /Font << /F1 3 0 R >> >>"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def a_paragraph(text: str, *, style: str | None = None) -> str:
    """Return a paragraph of WordprocessingML."""
    told = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{told}<w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def a_docx(body: str, **others: bytes) -> bytes:
    """Return a DOCX with some WordprocessingML and other files in it."""
    document = f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{level}"><w:name w:val="heading {level}"/></w:style>'
        for level in (1, 2)
    )
    files = {
        "[Content_Types].xml": _TYPES.encode(),
        "_rels/.rels": _RELATIONS.encode(),
        "word/styles.xml": f'<w:styles xmlns:w="{_WORD}">{styles}</w:styles>'.encode(),
        "word/document.xml": document.encode(),
        **others,
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


def a_pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """Return a PDF with some lines on each of its pages."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, lines in enumerate(pages):
        shown = " ".join(f"({line}) Tj T*" for line in lines)
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox {_BOX} /Contents {5 + 2 * number} 0 R {_FONTS} >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    return _with_table(objects)


def _with_table(objects: Sequence[str]) -> bytes:
    data, offsets = b"%PDF-1.4\n", list[int]()
    for number, text in enumerate(objects, start=1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{text}\nendobj\n".encode()
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    return (
        data
        + (
            f"xref\n0 {size}\n0000000000 65535 f \n{table}"
            f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(data)}\n%%EOF\n"
        ).encode()
    )
