"""What reads bytes that others wrote, each with the errors it may answer them with.

The law: a right value or one of those errors, within bounds of time and memory. The inputs in `corpus`
are kept: small ones that a reader takes, and every one that ever broke the law.
"""

from __future__ import annotations

import hashlib
import io
import json
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import thread_time
from typing import Any

import msgspec
import numpy as np

from engram.bodies.json_text import NotJsonError, prepare, restore
from engram.cli.importing import read_drafts
from engram.convert.html import HtmlWriter
from engram.convert.kinds import declared_charset, document_kind
from engram.errors import EngramError
from engram.mcp.messages import UnreadableMessageError, read_message
from engram.storage.codec import ContentCodec, ContentError
from engram.storage.content.pieces import parse_reference
from engram.storage.sqlite.word_index import read_varints
from engram.text.markdown import split_sections
from engram.transfer.markdown import read_exported
from engram.vectors.quantise import restore as restore_vectors
from engram.vectors.quantise import unpack_blobs
from engram_eval.reading import parse_row
from tests.fuzz.mutants import BYTEWISE
from tests.torture.history import digest

CORPUS = Path(__file__).parent / "corpus"
DIMENSIONS = 8
CPU_S_MAX = 5.0
"""Of this thread, for an input of a few kilobytes: thousands of times what any takes."""
MEMORY_BYTES_MAX = 64_000_000
"""A few times the largest message, which a compressed text may become."""

_SPLICES = (b"9" * 5_000, b"\x00" * 64, b"\xff" * 16, b"[" * 300, b"-", b"\n", b"1e999")


@dataclass(frozen=True, slots=True)
class Target:
    """A reader of bytes."""

    name: str
    read: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = (EngramError,)

    def seeds(self) -> Sequence[bytes]:
        """Return the kept inputs."""
        return [path.read_bytes() for path in sorted((CORPUS / self.name).iterdir())]

    def hold(self, data: bytes) -> float:
        """Check the law for an input; return the seconds of processor time that it took."""
        tracemalloc.start()
        began = thread_time()
        try:
            self.read(data)
        except self.refusals:
            pass
        finally:
            seconds, (_, peak) = thread_time() - began, tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert seconds < CPU_S_MAX, f"{self.name} took {seconds:.1f} s"
        assert peak < MEMORY_BYTES_MAX, f"{self.name} took {peak:,} bytes"
        return seconds


def mutated(random: Random, seeds: Sequence[bytes]) -> bytes:
    """Return a kept input that was changed in a few places, or joined with another."""
    data = random.choice(seeds)
    for _ in range(random.choice((0, 1, 1, 2, 4))):
        data = random.choice((*BYTEWISE, _spliced, _crossed(seeds)))(random, data or b"\x00")
    return data[:100_000]


def _spliced(random: Random, data: bytes) -> bytes:
    place = random.randrange(len(data) + 1)
    return data[:place] + random.choice(_SPLICES) + data[place:]


def _crossed(seeds: Sequence[bytes]) -> Callable[[Random, bytes], bytes]:
    def cross(random: Random, data: bytes) -> bytes:
        other = random.choice(seeds)
        return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]

    return cross


def _read_content(data: bytes) -> None:
    """Decode stored content; the first line is its encoding."""
    encoding, _, content = data.partition(b"\n")
    codec = ContentCodec()
    codec.unpack_dictionary(1, (CORPUS / "dictionary" / "trained").read_bytes())
    sha256 = hashlib.sha256(content).digest()
    name = encoding.decode("latin-1") or None
    if codec.missing_dictionary(name) is None:
        assert digest(codec.decode(content, encoding=name, sha256=sha256)) == sha256.hex()


def _read_dictionary(data: bytes) -> None:
    """Load a stored dictionary, and read a text that another one compressed."""
    packed = (CORPUS / "content" / "with-dictionary").read_bytes().partition(b"\n")[2]
    codec = ContentCodec()
    codec.unpack_dictionary(1, data)
    codec.decode(packed, encoding="zstd:1", sha256=bytes(32))


def _read_vector(data: bytes) -> None:
    rows = restore_vectors(unpack_blobs([data], dimensions=DIMENSIONS))
    assert np.isfinite(rows).all()
    assert np.abs(rows).max(initial=0) <= 1.01


def _read_varints(data: bytes) -> None:
    numbers = read_varints(data)
    assert len(numbers) <= len(data)
    assert all(0 <= number < 2**64 for number in numbers)


def _read_json(data: bytes) -> None:
    """Parse the body of a request, and compare what is accepted with another parser."""
    text = prepare(data)
    value = restore(msgspec.json.decode(text.data), text.texts)
    assert _plain(value) == _plain(json.loads(data))


def _plain(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _read_sections(data: bytes) -> None:
    text = data.decode()
    assert "".join(text[section.start : section.end] for section in split_sections(text)) == text


def _read_html(data: bytes) -> None:
    pieces = list[str]()
    writer = HtmlWriter(pieces.append)
    writer.feed(data.decode("utf-8", "replace"))
    writer.close()


def _read_kind(data: bytes) -> None:
    declared_charset(data.decode("latin-1"))
    document_kind(data, media_type=data[:40].decode("latin-1"))
    document_kind(data, name=data[:40].decode("latin-1"))


def _read_lines(data: bytes) -> None:
    list(read_drafts(io.BytesIO(data)))


TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target("content", _read_content, (ContentError,)),
        Target("dictionary", _read_dictionary, (ContentError,)),
        Target("reference", parse_reference, (ContentError,)),
        Target("vector", _read_vector),
        Target("varints", _read_varints),
        Target(
            "json", _read_json, (EngramError, NotJsonError, msgspec.DecodeError, UnicodeDecodeError)
        ),
        Target("rpc", read_message, (UnreadableMessageError,)),
        Target("page", read_exported),
        Target("sections", _read_sections, (UnicodeDecodeError,)),
        Target("html", _read_html),
        Target("kind", _read_kind),
        Target("evaluation", parse_row),
        Target("jsonl", _read_lines),
    )
}
