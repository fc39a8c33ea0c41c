"""Slack's export: a zip archive with a file for each channel and day. A thread is a conversation."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from engram.sources.archives import open_archive, read_entry
from engram.sources.texts import as_list, as_record, as_text, moment_of
from engram.sources.values import Session, Source, SourceFile, SourceMessage, Tally

_DAY = re.compile(r"\d{4}-\d\d-\d\d\.json")
# Slack writes `<` in a text as `&lt;`, so none stands within these.
_MENTION = re.compile(r"<@(\w+)(?:\|([^<>]*))?>")
_CHANNEL = re.compile(r"<#\w+\|([^<>]*)>")
_LINK = re.compile(r"<((?:https?|mailto):[^|<>]+)(?:\|([^<>]*))?>")
_SPOKEN = frozenset({None, "thread_broadcast", "me_message", "file_share", "bot_message"})


def read(file: SourceFile, tally: Tally) -> Iterator[SourceMessage]:
    """Yield the messages of all channels, day by day; outside threads a day is a conversation."""
    with open_archive(file.path) as archive:
        names = _names(archive)
        for entry in sorted(archive.namelist()):
            path = PurePosixPath(entry)
            if not _DAY.fullmatch(path.name):
                continue
            day = read_entry(archive, entry)
            if day is None:
                tally.skip("unreadable day")
                continue
            for message in map(as_record, as_list(day)):
                tally.read += 1
                yield from _read(message, path.parent.name, path.stem, names, tally)


def _names(archive: zipfile.ZipFile) -> Mapping[str, str]:
    """Return the names of people by their ids."""
    found = dict[str, str]()
    for user in map(as_record, as_list(read_entry(archive, "users.json"))):
        profile = as_record(user.get("profile"))
        name = (
            as_text(profile.get("display_name"))
            or as_text(profile.get("real_name"))
            or as_text(user.get("name"))
        )
        if name is not None:
            found[str(user.get("id"))] = name
    return found


def _read(
    message: dict[str, Any], channel: str, day: str, names: Mapping[str, str], tally: Tally
) -> Iterator[SourceMessage]:
    if message.get("type") != "message":
        tally.meet(message.get("type"))
        return
    if as_text(message.get("subtype")) not in _SPOKEN:
        tally.skip("not a message")
        return
    ts = as_text(message.get("ts"))
    if ts is None:
        tally.skip("no id")
        return
    thread = as_text(message.get("thread_ts"))
    session = Session(
        id=f"{channel}/{thread or day}",
        title=None if thread else f"#{channel}, {day}",
        tags=(channel,),
        metadata={"channel": channel},
    )
    yield SourceMessage(
        session,
        f"{message.get('user') or message.get('bot_id')}:{ts}",
        "user",
        _plain(as_text(message.get("text")) or "", names),
        moment_of(ts),
        name=_speaker(message, names),
    )


def _speaker(message: dict[str, Any], names: Mapping[str, str]) -> str | None:
    user = as_text(message.get("user"))
    return names.get(user, user) if user else as_text(message.get("username"))


def _plain(text: str, names: Mapping[str, str]) -> str:
    """Return a text with the names of people and channels in the place of Slack's marks."""
    text = _MENTION.sub(lambda found: "@" + (found[2] or names.get(found[1], found[1])), text)
    text = _CHANNEL.sub(r"#\1", text)
    text = _LINK.sub(lambda found: f"{found[2]} ({found[1]})" if found[2] else found[1], text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


SOURCE = Source(name="slack", title="Slack export", patterns=("*.zip",), read=read)
