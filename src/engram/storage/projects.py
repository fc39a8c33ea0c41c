"""Projects: what users say of their names, moving all that one has to another, and what can be taken back.

A project is a column of conversations, memories and episodes, so a merge changes rows in batches. What memories
said before keeps the name it was stored under.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from engram.clock import from_microseconds
from engram.errors import ConflictError, LimitExceededError, NotFoundError
from engram.limits import CHANGE_SETS_KEPT, PROJECT_RULES_MAX
from engram.model.project import ChangeId, ChangeKind, ChangeSet, MovedProject, ProjectRule
from engram.model.search import Kind
from engram.storage.bookkeeping import audit
from engram.storage.bookkeeping.counters import grow_counters
from engram.storage.bookkeeping.holds import Thing, find_hold, has_holds
from engram.storage.bookkeeping.row_hashes import (
    CONVERSATION,
    EPISODE,
    MEMORY,
    PROJECT_RULE,
    changing,
)
from engram.storage.conversations.records import move_record
from engram.storage.rows.queries import load_queries
from engram.storage.tenant import TenantStore, Transaction

_SQL = load_queries("projects.sql")

MOVED_TOGETHER = 200
"""Rows that one transaction moves: few enough that other writers hardly wait."""

CHANGE_PREFIX = "chg_"

_NAMES = ("project", "into", "rule")
"""Names of projects among the items of a merge."""


class Moving(NamedTuple):
    """A move of everything in a project, or of some ids, to another."""

    project: str
    to: str
    only: Collection[str] | None = None

    def which(self) -> dict[str, Any]:
        """Return the parameters that select what is moved."""
        ids = [] if self.only is None else sorted(self.only)
        return {"project": self.project, "any": int(self.only is None), "ids": json.dumps(ids)}

    @property
    def grows(self) -> int:
        """Return the bytes that a row grows by."""
        return len(self.to.encode()) - len(self.project.encode())


class _Batch(NamedTuple):
    """Some rows that were looked at."""

    moved: list[str]
    held: int
    after: int | None
    """Where the next batch begins; None at the end."""


class ProjectStore(TenantStore):
    """The rules about projects of one organisation, and its acts that can be taken back."""

    async def list_rules(self) -> tuple[ProjectRule, ...]:
        """Return what is said of projects, by name."""
        return tuple(await self._tenant.read(_rules))

    async def set_rule(self, project: str, same_as: str | None, *, actor: str) -> ProjectRule:
        """Let a name stand for another project, or with None exclude it, with the audit row.

        What stood for the project stands for the new one then.

        Raises:
            ConflictError: the other project stands for this one.
            LimitExceededError: there are too many rules.
        """
        return await self._tenant.write(
            lambda tx: _set_rule(tx, project, same_as=same_as, actor=actor)
        )

    async def remove_rule(self, project: str, *, actor: str) -> ProjectRule:
        """Remove what is said of a project and return it, with the audit row.

        Raises:
            NotFoundError: nothing is said of it.
        """

        def write(tx: Transaction) -> ProjectRule:
            removed = [rule for rule in _rules(tx) if rule.project == project]
            if not removed:
                raise NotFoundError("alias or exclusion of the project", project)
            tx.execute(_SQL["remove_project_rule"], project=project)
            now = tx.tenant.now()
            audit.record(tx, now=now, actor=actor, action="project_reset", subject=project)
            return removed[0]

        return await self._tenant.write(write)

    async def move(self, moving: Moving, *, actor: str, limit: int) -> MovedProject:
        """Move what a project has to another, at most `limit` of each kind, with one audit row.

        Forgotten and immutable memories are moved too: what they say does not change.
        """
        conversations = await self._in_batches(partial(_move_conversations, moving=moving), limit)
        memories = await self._in_batches(partial(_move_memories, moving=moving), limit)
        episodes = await self._tenant.write(lambda tx: _move_episodes(tx, moving, limit))
        moved = MovedProject(
            conversations=tuple(conversations.moved),
            memories=tuple(memories.moved),
            episodes=tuple(episodes),
            held=conversations.held + memories.held,
        )
        await self._tenant.write(lambda tx: _audit_move(tx, moving, moved, actor=actor))
        return moved

    async def add_change_set(
        self, kind: ChangeKind, items: Mapping[str, Any], *, actor: str
    ) -> ChangeId:
        """Keep what an act has changed, and drop the oldest beyond the bound; return its id."""

        def write(tx: Transaction) -> ChangeId:
            change_id = ChangeId(tx.tenant.ids.new(CHANGE_PREFIX))
            values = {"id": change_id, "at": tx.tenant.now(), "actor": actor, "kind": kind}
            tx.execute(_SQL["add_change_set"], **values, items=json.dumps(items))
            tx.execute(_SQL["drop_old_change_sets"], kept=CHANGE_SETS_KEPT)
            return change_id

        return await self._tenant.write(write)

    async def get_change_set(self, change_id: ChangeId) -> ChangeSet:
        """Return what an act has changed.

        Raises:
            NotFoundError: it is unknown, was taken back, or is too old.
        """

        def read(tx: Transaction) -> ChangeSet:
            row = tx.execute(_SQL["get_change_set"], id=change_id).fetchone()
            if row is None:
                raise NotFoundError("change that can be undone", change_id)
            kind, at, actor, items = row
            return ChangeSet(
                id=change_id,
                kind=kind,
                at=from_microseconds(at),
                actor=actor,
                items=json.loads(items),
            )

        return await self._tenant.read(read)

    async def remove_change_set(self, change_id: ChangeId) -> bool:
        """Let an act be taken back no more; return False if somebody else was first."""
        return await self._tenant.write(
            lambda tx: tx.execute(_SQL["remove_change_set"], id=change_id).rowcount > 0
        )

    async def _in_batches(self, work: Callable[..., _Batch], limit: int) -> _Batch:
        moved, held, after = list[str](), 0, 0
        while (left := limit - len(moved)) > 0:
            step = partial(work, after=after, limit=min(left, MOVED_TOGETHER))
            batch = await self._tenant.write(step)
            moved += batch.moved
            held += batch.held
            if batch.after is None:
                break
            after = batch.after
        return _Batch(moved, held, None)


def _rules(tx: Transaction) -> list[ProjectRule]:
    return list(map(_rule_of, tx.execute(_SQL["list_project_rules"]).fetchall()))


def _rule_of(row: Sequence[Any]) -> ProjectRule:
    project, same_as, created_at, actor = row
    return ProjectRule(
        project=project,
        same_as=same_as,
        created_at=from_microseconds(created_at),
        created_by=actor,
    )


def _set_rule(tx: Transaction, project: str, *, same_as: str | None, actor: str) -> ProjectRule:
    rules = {rule.project: rule for rule in _rules(tx)}
    if same_as in rules and (further := rules[same_as].same_as) is not None:
        same_as = further
    if same_as == project:
        raise ConflictError(f"that project stands for {project!r} already: reset it first")
    count = len(rules.keys() | {project})
    if count > PROJECT_RULES_MAX:
        raise LimitExceededError(
            "projects", limit=PROJECT_RULES_MAX, actual=count, unit="aliases and exclusions"
        )
    if same_as is not None:
        for rule in rules.values():
            if rule.same_as == project:
                _put_rule(tx, rule.project, same_as=same_as, actor=actor)
    placed = _put_rule(tx, project, same_as=same_as, actor=actor)
    act = partial(audit.record, tx, now=tx.tenant.now(), actor=actor)
    if same_as is None:
        act(action="project_exclude", subject=project)
    else:
        act(action="project_alias", subject=project)
        act(action="project_alias_of", subject=same_as)
    return placed


def _put_rule(tx: Transaction, project: str, *, same_as: str | None, actor: str) -> ProjectRule:
    values = {
        "project": project,
        "same_as": same_as,
        "created_at": tx.tenant.now(),
        "actor": actor,
    }
    tx.execute(_SQL["remove_project_rule"], project=project)
    row_hash = PROJECT_RULE.hash(tx.tenant.id, values)
    tx.execute(_SQL["add_project_rule"], **values, row_hash=row_hash)
    return _rule_of(tuple(values.values()))


def _move_conversations(tx: Transaction, *, moving: Moving, after: int, limit: int) -> _Batch:
    values = {**moving.which(), "after": after, "limit": limit}
    rows = tx.execute(_SQL["conversations_in"], **values).fetchall()
    moved, may_be_held = list[str](), has_holds(tx)
    for number, public_id, agent in rows:
        thing = Thing(public_id, "conversation", moving.project, agent)
        if may_be_held and find_hold(tx, thing) is not None:
            continue
        with changing(tx, CONVERSATION, number=number):
            move_record(tx, number, moving.to)
        moved.append(public_id)
    grow_counters(tx, stored_bytes=moving.grows * len(moved))
    return _batch_of(rows, moved, limit)


def _move_memories(tx: Transaction, *, moving: Moving, after: int, limit: int) -> _Batch:
    values = {**moving.which(), "after": after, "limit": limit}
    rows = tx.execute(_SQL["memories_in"], **values).fetchall()
    moved, may_be_held = list[str](), has_holds(tx)
    for number, public_id, source, record, is_document in rows:
        kind: Kind = "document" if is_document else "note"
        thing = Thing(public_id, kind, moving.project, source)
        if may_be_held and find_hold(tx, thing) is not None:
            continue
        with changing(tx, MEMORY, number=number):
            tx.execute(_SQL["move_memory"], number=number, project=moving.to)
        if record is not None:
            move_record(tx, record, moving.to)
        moved.append(public_id)
    grow_counters(tx, stored_bytes=moving.grows * len(moved))
    return _batch_of(rows, moved, limit)


def _batch_of(rows: Sequence[Sequence[Any]], moved: list[str], limit: int) -> _Batch:
    after = rows[-1][0] if len(rows) == limit else None
    return _Batch(moved, len(rows) - len(moved), after)


def _move_episodes(tx: Transaction, moving: Moving, limit: int) -> list[str]:
    rows = tx.execute(_SQL["episodes_in"], **moving.which(), limit=limit).fetchall()
    for (episode_id,) in rows:
        with changing(tx, EPISODE, id=episode_id):
            tx.execute(_SQL["move_episode"], id=episode_id, project=moving.to)
    grow_counters(tx, stored_bytes=moving.grows * len(rows))
    return [episode_id for (episode_id,) in rows]


def _audit_move(tx: Transaction, moving: Moving, moved: MovedProject, *, actor: str) -> None:
    details = {
        "conversations": len(moved.conversations),
        "memories": len(moved.memories),
        "episodes": len(moved.episodes),
    }
    # A row for each name: an erasure takes names out of subjects, and could not out of details.
    act = partial(audit.record, tx, now=tx.tenant.now(), actor=actor)
    act(action="project_merge", subject=moving.project, details=details)
    act(action="project_merge_into", subject=moving.to)


def forget_erased(tx: Transaction, ids: Collection[str], *, project: str | None) -> None:
    """Take what was erased out of the acts that can be undone, and an erased project out of the aliases.

    That a project is excluded stays: it keeps the project from being captured again.
    """
    if project is not None:
        tx.execute(_SQL["remove_aliases_with"], project=project)
    gone = frozenset(ids)
    for change_id, stored in tx.execute(_SQL["list_change_sets"]).fetchall():
        items: dict[str, Any] = json.loads(stored)
        if project is not None and project in (items.get(name) for name in _NAMES):
            tx.execute(_SQL["remove_change_set"], id=change_id)
            continue
        kept = {name: _without(value, gone) for name, value in items.items()}
        if kept != items:
            tx.execute(_SQL["change_change_set"], id=change_id, items=json.dumps(kept))


def _without(value: Any, gone: frozenset[str]) -> Any:
    """Return ids, or what is kept by id, without those that are gone."""
    match value:
        case list():
            return [each for each in cast("list[str]", value) if each not in gone]
        case dict():
            kept = cast("dict[str, Any]", value)
            return {name: each for name, each in kept.items() if name not in gone}
        case _:
            return value
