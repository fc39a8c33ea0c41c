"""Backups in a bucket: an S3-compatible server on this machine stands for the service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from engram.backup.catalog import read_catalog
from engram.backup.keeping import parse_rules, prune
from engram.backup.object_storage import open_destination
from engram.errors import BackupDamagedError, BackupUnavailableError, ConfigurationError
from tests.backup.buckets import running_service
from tests.backup.stores import Backups, begin_in_new, faults, opened, say, texts_of


@pytest.fixture(scope="module")
def service() -> Iterator[Mapping[str, str]]:
    """Yield the environment of a running service with a bucket."""
    with running_service("memories") as environment:
        yield environment


@pytest.fixture
def bucket(service: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a URL of the bucket, and have the environment lead to the service."""
    for name, value in service.items():
        monkeypatch.setenv(name, value)
    return "s3://memories"


async def test_a_store_is_backed_up_to_a_bucket_and_restored_from_it(
    bucket: str, tmp_path: Path
) -> None:
    backups = Backups(tmp_path / "store", open_destination(f"{bucket}/a/b"))
    async with opened(backups.home) as store:
        conversation = await begin_in_new(store, "the first")
    first = backups.make()
    async with opened(backups.home) as store:
        await say(store, conversation, "the second")
    second = backups.make()

    backups.restore(tmp_path / "earlier", as_of=first.manifest.instant)
    backups.restore(tmp_path / "later")

    assert (first.copied, second.copied) == (2, 1)
    assert await texts_of(tmp_path / "earlier", *conversation) == ["the first"]
    assert await texts_of(tmp_path / "later", *conversation) == ["the first", "the second"]
    assert await faults(tmp_path / "later") == []


async def test_old_objects_are_removed_from_a_bucket(bucket: str, tmp_path: Path) -> None:
    backups = Backups(tmp_path / "store", open_destination(f"{bucket}/pruned"))
    async with opened(backups.home) as store:
        conversation = await begin_in_new(store, "the first")
    backups.make()
    async with opened(backups.home) as store:
        await say(store, conversation, "the second")
    backups.clock.advance(timedelta(days=2))
    backups.make()

    prune(backups.destination, parse_rules("1d"), now=backups.clock.now())

    assert len(read_catalog(backups.destination).manifests) == 1
    assert len(list(backups.destination.list_items("objects"))) == 2
    backups.restore(tmp_path / "restored")


async def test_an_object_that_is_missing_in_the_bucket_is_named(
    bucket: str, tmp_path: Path
) -> None:
    backups = Backups(tmp_path / "store", open_destination(f"{bucket}/lost"))
    async with opened(backups.home) as store:
        await begin_in_new(store, "the first")
    made = backups.make()
    (item, *_) = backups.destination.list_items("objects")
    backups.destination.remove(item.name)

    with pytest.raises(BackupDamagedError, match="is missing"):
        backups.restore(tmp_path / "restored")
    assert made.copied == 2


async def test_a_bucket_that_is_not_there_is_an_error_that_names_it(
    bucket: str, tmp_path: Path
) -> None:
    del bucket
    backups = Backups(tmp_path / "store", open_destination("s3://nobody-made-this/x"))
    async with opened(backups.home) as store:
        await begin_in_new(store, "the first")

    with pytest.raises(BackupUnavailableError, match="s3://nobody-made-this/x"):
        backups.make()


def test_a_url_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="s3"):
        open_destination("ftp://host/path")
