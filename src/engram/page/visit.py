"""One request of somebody who is signed in, as views and acts see it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, urlencode

from engram.api.documents import (
    DocumentFields,
    DocumentReference,
    DocumentStored,
    document_stored,
    download_headers,
)
from engram.api.operation import AnyOperation
from engram.api.table import OPERATIONS
from engram.errors import InvalidRequestError, UnauthenticatedError
from engram.model.access import KeyScope, Principal
from engram.model.request import NOTHING, parse
from engram.service import Service

_OPERATIONS: Mapping[str, AnyOperation] = {each.name: each for each in OPERATIONS}

Fields = Sequence[tuple[str, str]]
"""What a query string or a form says, in order; a name may come more than once."""


class FormFile(NamedTuple):
    """The file of a form, whose bytes are read as they arrive."""

    name: str
    media_type: str
    pieces: AsyncIterator[bytes]


class Download(NamedTuple):
    """A body that is sent as it is read, instead of a view."""

    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]


class Visit:
    """One request by a signed-in visitor; `call` runs an operation as REST would."""

    def __init__(
        self,
        service: Service,
        *,
        principal: Principal | None,
        operator: str | None,
        path: str,
        parameters: Mapping[str, str],
        query: Fields,
        form: Fields = (),
        secret: str | None = None,
    ) -> None:
        self.service = service
        self.operator = operator
        self.path = path
        self.parameters = parameters
        """Parts of the path, by name."""
        self.query = query
        self.form = form
        self.file: FormFile | None = None
        """The file of a form, for an act that reads one."""
        self.secret = secret
        """The session's secret, if a cookie brought it."""
        self._principal = principal

    @property
    def principal(self) -> Principal:
        """The authenticated caller.

        Raises:
            UnauthenticatedError: nobody, or an operator who acts for no organisation.
        """
        if self._principal is None:
            raise UnauthenticatedError
        return self._principal

    @property
    def has_organization(self) -> bool:
        """Return True unless an operator acts for no organisation, or nobody is signed in."""
        return self._principal is not None

    @cached_property
    def now(self) -> datetime:
        """The moment of the request."""
        return self.service.clock.now()

    def allows(self, *scopes: KeyScope) -> bool:
        """Return True if whoever asks has all the scopes."""
        return self._principal is not None and all(map(self._principal.allows, scopes))

    def given(self, name: str) -> str | None:
        """Return a field of the query string; None if it is missing or blank."""
        values = self.all_given(name)
        return values[0] if values else None

    def all_given(self, name: str) -> list[str]:
        """Return a field of the query string that may be repeated, without blanks."""
        return [value for key, value in self.query if key == name and value.strip()]

    def sent(self, name: str) -> str:
        """Return a field of the form.

        Raises:
            InvalidRequestError: it is missing.
        """
        for key, value in self.form:
            if key == name:
                return value
        raise InvalidRequestError("is required", field=name)

    def all_sent(self, name: str) -> list[str]:
        """Return a field of the form that may be repeated."""
        return [value for key, value in self.form if key == name]

    def link(self, path: str | None = None, /, **changes: Any) -> str:
        """Return an address with this query string, some fields changed; None removes one."""
        kept = [(name, value) for name, value in self.query if name not in changes]
        added = [
            (name, str(each))
            for name, value in changes.items()
            if value is not None
            for each in _each(value)
        ]
        encoded = urlencode([*kept, *added])
        return f"{path or self.path}?{encoded}" if encoded else path or self.path

    async def call(
        self, operation: str, fixed: Mapping[str, Any] = NOTHING, /, **fields: Any
    ) -> Any:
        """Return the answer of an operation, to whose fields text is converted; None is left out.

        `fixed` has fields that routes fix, which may be None: a path names a memory of any project.

        Raises:
            AccessDeniedError: the key lacks a scope or the toolset.
            InvalidRequestError: a field is not valid.
        """
        found = _OPERATIONS[operation]
        caller = self._caller(found)
        given = {name: value for name, value in fields.items() if value is not None}
        request = parse(found.request, given, mode="lenient", fixed=fixed)
        return await found.run(self.service, caller, request)

    async def store_document(self, **fields: Any) -> DocumentStored:
        """Store the file of the form as `upload_document` does, whose body is the file.

        Raises:
            InvalidRequestError: a field is not valid, or there is no file.
        """
        found = _OPERATIONS["upload_document"]
        self._caller(found)
        if self.file is None:
            raise InvalidRequestError("must be chosen", field="file")
        request: DocumentFields = parse(found.request, fields, mode="lenient")
        draft = request.draft(media_type=self.file.media_type, size_bytes=None)
        stored = await self.service.documents.store_stream(self.principal, draft, self.file.pieces)
        return document_stored(stored)

    async def read_document(self, document_id: str) -> Download:
        """Return the body of a document, as `get_document` does."""
        found = _OPERATIONS["get_document"]
        self._caller(found)
        request: DocumentReference = parse(
            found.request, {"document_id": document_id}, mode="lenient"
        )
        documents = self.service.documents
        document = await documents.get(self.principal, request.document_id)
        pieces = await documents.read_body(self.principal, document, None)
        length = {"content-length": str(document.size_bytes)}
        return Download({**download_headers(document), **length}, pieces)

    def _caller(self, operation: AnyOperation) -> Principal | str:
        """Return whoever asks, if an operation is allowed to them."""
        if operation.is_operators:
            if self.operator is None:
                raise UnauthenticatedError
            return self.operator
        if operation.toolset is not None:
            self.principal.require_toolset(operation.toolset)
        self.principal.require(*operation.scopes)
        return self.principal


def _each(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def read_fields(encoded: bytes, *, field: str) -> list[tuple[str, str]]:
    """Parse a query string or the body of a form.

    Raises:
        InvalidRequestError: it is not percent-encoded UTF-8.
    """
    try:
        return parse_qsl(encoded.decode(), keep_blank_values=True, errors="strict")
    except ValueError as exc:
        raise InvalidRequestError("must be UTF-8, percent-encoded", field=field) from exc
