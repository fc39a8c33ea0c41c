"""Evaluation sets from files; whatever is wrong with one is told with its file and line."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from engram import limits
from engram.errors import InvalidRequestError, LimitExceededError
from engram.evaluation.assembly import Assembly
from engram.evaluation.dataset import EvaluationSet
from engram.evaluation.rows import parse_row

SUFFIX = ".dev.jsonl.gz"
PATH_SUFFIXES = (".jsonl", ".jsonl.gz")

_GZIP_MAGIC = b"\x1f\x8b"


def find_sets(sets: Sequence[str], *, directory: Path) -> tuple[Path, ...]:
    """Return the file of each set: a path as it is, a name as `NAME.dev.jsonl.gz`.

    Raises:
        InvalidRequestError: none is named, or one is not there; says which there are.
    """
    paths = tuple(_path_of(name, directory) for name in sets)
    missing = [str(path) for path in paths if not path.is_file()]
    if paths and not missing:
        return paths
    problem = f"no file {', '.join(missing)}" if missing else "name at least one"
    there = sorted(path.name.removesuffix(SUFFIX) for path in directory.glob(f"*{SUFFIX}"))
    message = f"{problem}; {directory} has {', '.join(there) or 'none'}"
    raise InvalidRequestError(message, field="sets")


def read_set(path: Path) -> EvaluationSet:
    """Return the set in a file of JSON lines, compressed or not.

    Raises:
        InvalidRequestError: it cannot be read, a line is wrong, or nothing is asked.
    """
    assembly = Assembly()
    for number, line in _numbered_lines(path):
        with _placed(path, number):
            assembly.add(parse_row(line), number=number)
    for number, question in assembly.asked:
        with _placed(path, number):
            assembly.check(question)
    if not assembly.asked:
        raise InvalidRequestError("holds no question with evidence", field=str(path))
    file_name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    return EvaluationSet(name=assembly.name or file_name, haystacks=assembly.haystacks())


def _path_of(name: str, directory: Path) -> Path:
    return Path(name) if name.endswith(PATH_SUFFIXES) else directory / f"{name}{SUFFIX}"


def _numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers."""
    number = 0
    try:
        with _opened(path) as file:
            while line := file.readline(limits.BODY_BYTES_MAX + 1):
                number += 1
                if len(line) > limits.BODY_BYTES_MAX:
                    raise LimitExceededError(
                        _place(path, number),
                        limit=limits.BODY_BYTES_MAX,
                        actual=len(line),
                        unit="bytes",
                    )
                if line.strip():
                    yield number, line
    except (OSError, EOFError, zlib.error) as exc:
        raise InvalidRequestError(f"cannot be read: {exc}", field=_place(path, number + 1)) from exc


@contextmanager
def _opened(path: Path) -> Generator[BinaryIO]:
    with path.open("rb") as file:
        is_compressed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
        file.seek(0)
        if not is_compressed:
            yield file
            return
        with gzip.open(file) as unpacked:
            yield cast("BinaryIO", unpacked)


@contextmanager
def _placed(path: Path, number: int) -> Generator[None]:
    """Tell an error of the block with the file and the line it comes from."""
    try:
        yield
    except InvalidRequestError as exc:
        raise InvalidRequestError(str(exc), field=_place(path, number)) from exc


def _place(path: Path, number: int) -> str:
    return f"{path}, line {number}"
