"""Say what is to be done for each organisation, before anything is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from engram.errors import ConflictError
from engram.model.ids import OrganizationId
from engram.storage.moving.control import Move, OrganizationRow

Standing = Literal["new", "begun", "moved"]
"""How far an organisation is at the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An organisation that is to be moved."""

    organization: OrganizationRow
    standing: Standing
    rows: int
    """Of all its tables; 0 of one that was moved."""

    @property
    def steps(self) -> int:
        """What a move advances by: every row is copied, and compared."""
        return 2 * self.rows


@dataclass(frozen=True, slots=True)
class Arrived:
    """What a target has already."""

    organizations: Sequence[OrganizationRow] = ()
    moves: Mapping[OrganizationId, Move] | None = None

    def standing_of(self, organization: OrganizationRow) -> Standing:
        """Return how far an organisation is.

        Raises:
            ConflictError: the target has it, and not from a move; or it is this machine's owner's,
                and the target has another one of that kind.
        """
        move = (self.moves or {}).get(organization.id)
        if any(each.id == organization.id for each in self.organizations):
            if move is not None and move.state == "done":
                return "moved"
            raise ConflictError(
                f"the target has an organisation {organization.id} that was not moved there: move"
                " into another database, or delete that one first"
            )
        self._refuse_second_owner(organization)
        # The trace of one that was moved, and deleted since, says nothing.
        return "new" if move is None or move.state == "done" else "begun"

    def _refuse_second_owner(self, organization: OrganizationRow) -> None:
        for each in self.organizations:
            if organization.is_local and each.is_local:
                raise ConflictError(
                    f"the target has an organisation of this machine's owner already, {each.id}:"
                    f" delete it there before you move {organization.id}"
                )
