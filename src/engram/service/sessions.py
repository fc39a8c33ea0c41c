"""Sign-ins of browsers to the page: a key, a one-time local link or an operator's token begins one.

A session is worth what began it: it ends with its key, or when the operator's token changes.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from engram import limits
from engram.clock import random_text
from engram.errors import UnauthenticatedError
from engram.model.access import KEY_PREFIX, AuditNote, PageSession, Visitor
from engram.model.value import replace
from engram.service import Tools, UseCases
from engram.service.access.credentials import CACHED, CACHED_KEYS_MAX, hash_of, is_fresh

if TYPE_CHECKING:
    from engram.model.ids import KeyId, OrganizationId
    from engram.service.organizations import Operator

_SECRET_CHARACTERS = 43
"""More than 256 bits."""


class Sessions(UseCases):
    """Begins, resolves and ends sessions; the secrets are the caller's to keep."""

    def __init__(self, tools: Tools, operator: Operator) -> None:
        super().__init__(tools)
        self._operator = operator
        self._sessions = tools.store.control.sessions
        self._cache = OrderedDict[str, tuple[PageSession, datetime]]()
        """LRU cache by the hash of the secret: a view has many parts, which are asked for at once."""

    async def sign_in(self, credential: str, *, address: str | None) -> str:
        """Return the secret of a new session for an API key or an operator's token.

        Raises:
            UnauthenticatedError: the credential is not right.
            TooManyFailedLoginsError: too many others were wrong before.
        """
        access = self._tools.access
        if not credential.startswith(KEY_PREFIX):
            actor = access.authenticate_operator(credential, address=address)
            session = self._session(None, actor)
            return await self._begin(replace(session, operator_hash=hash_of(credential)))
        principal = await access.authenticate(credential, address=address)
        key_id: KeyId = principal.actor  # pyright: ignore[reportAssignmentType] of a key it is the id
        return await self._begin(
            replace(self._session(principal.organization_id, principal.actor), key_id=key_id)
        )

    async def create_link(self) -> str:
        """Return the secret of a link that signs one browser in as the owner of this machine."""
        principal = await self._tools.access.local_principal()
        secret = random_text(_SECRET_CHARACTERS)
        link = self._session(principal.organization_id, principal.actor, lasts_s=limits.PAGE_LINK_S)
        await self._sessions.add(hash_of(secret), link, kind="link")
        return secret

    async def redeem_link(self, secret: str) -> str:
        """Return the secret of a new session for a link, which works once.

        Raises:
            UnauthenticatedError: the link is unknown, used or too old.
        """
        link = await self._sessions.redeem(hash_of(secret))
        if link is None:
            raise UnauthenticatedError
        return await self._begin(self._session(link.organization_id, link.actor))

    async def find_visitor(self, secret: str) -> Visitor | None:
        """Return who is signed in, None if the session or what began it has ended."""
        session = await self._find(hash_of(secret))
        if session is None:
            return None
        if session.operator_hash is not None:
            return await self._find_operator(session, session.operator_hash)
        if session.key_id is None:
            principal = await self._tools.access.local_principal()
            return Visitor(principal=principal)
        found = await self._tools.access.find_principal(session.key_hash or "")
        return None if found is None else Visitor(principal=found)

    async def choose_organization(
        self, secret: str, organization_id: OrganizationId | None
    ) -> None:
        """Let an operator's session act for an organisation, or for none.

        Raises:
            NotFoundError: the id is unknown.
        """
        if organization_id is not None:
            await self._operator.act_for(organization_id)
        await self._sessions.choose_organization(hash_of(secret), organization_id)

    async def sign_out(self, secret: str) -> None:
        """End a session; other processes serve it for half a second more."""
        secret_hash = hash_of(secret)
        await self._sessions.end(secret_hash)
        self._cache.pop(secret_hash, None)

    async def _find(self, secret_hash: str) -> PageSession | None:
        now = self._tools.clock.now()
        session, until = self._cache.get(secret_hash, (None, now))
        if session is not None and is_fresh(until, now):
            return session
        self._cache.pop(secret_hash, None)
        session = await self._sessions.find(secret_hash)
        # An operator's session may act for another organisation from one request to the next.
        if session is not None and session.operator_hash is None:
            self._cache[secret_hash] = session, min(now + CACHED, session.expires_at)
            if len(self._cache) > CACHED_KEYS_MAX:
                self._cache.popitem(last=False)
        return session

    async def _find_operator(self, session: PageSession, token_hash: str) -> Visitor | None:
        if not self._tools.access.is_operator(session.actor, token_hash):
            return None
        if session.organization_id is None:
            return Visitor(principal=None, operator=session.actor)
        principal = await self._operator.act_for(session.organization_id)
        return Visitor(principal=replace(principal, actor=session.actor), operator=session.actor)

    async def _begin(self, session: PageSession) -> str:
        secret = random_text(_SECRET_CHARACTERS)
        await self._sessions.add(hash_of(secret), session, kind="session")
        if session.organization_id is not None:
            note = AuditNote(
                organization_id=session.organization_id,
                at=session.created_at,
                actor=session.actor,
                action="sign_in",
                details={},
            )
            await self._tools.store.control.record_audit([note])
        return secret

    def _session(
        self,
        organization_id: OrganizationId | None,
        actor: str,
        *,
        lasts_s: int = limits.PAGE_SESSION_S,
    ) -> PageSession:
        now = self._tools.clock.now()
        return PageSession(
            organization_id=organization_id,
            actor=actor,
            created_at=now,
            expires_at=now + timedelta(seconds=lasts_s),
        )
