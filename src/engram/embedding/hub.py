"""Model files from the hub, over HTTPS, taken up again where a download broke off."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from engram.embedding.registry import KnownModel, ModelFile, PinnedBytes
from engram.embedding.sources import Advance, SourceError
from engram.limits import MODEL_ATTEMPTS_MAX, MODEL_CONNECT_S, MODEL_READ_S

if TYPE_CHECKING:
    import httpx


class HubSource:
    """The hub the models were published on, or a mirror of it."""

    name = "hub"

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")

    def fetch(
        self, model: KnownModel, files: Sequence[ModelFile], staging: Path, *, advance: Advance
    ) -> None:
        import httpx

        base = f"{self._url}/{model.hub_repository}/resolve/{model.hub_revision}"
        timeout = httpx.Timeout(MODEL_READ_S, connect=MODEL_CONNECT_S)
        with httpx.Client(timeout=timeout, follow_redirects=True) as client:
            for file in files:
                url = f"{base}/{file.hub.path}"
                _Download(client, url, staging / file.name, file.hub, advance).run()


class _Download:
    """One file on its way."""

    def __init__(
        self,
        client: httpx.Client,
        url: str,
        target: Path,
        pinned: PinnedBytes,
        advance: Advance,
    ) -> None:
        self._client = client
        self._url = url
        self._target = target
        self._pinned = pinned
        self._advance = advance
        self._told = 0

    def run(self) -> None:
        """Bring the file in as many pieces as it takes."""
        import httpx

        reason = "it ended early"
        for _ in range(MODEL_ATTEMPTS_MAX):
            try:
                self._take_up()
            except (httpx.ConnectError, httpx.ConnectTimeout) as exc:
                raise SourceError(f"cannot be reached: {exc}") from exc
            except httpx.HTTPError as exc:
                reason = str(exc) or type(exc).__name__
            if self._arrived() == self._pinned.size_bytes:
                return
        raise SourceError(f"the download broke off: {reason}")

    def _take_up(self) -> None:
        """Ask for what is missing and append it."""
        start = self._arrived()
        self._tell(start)
        if start == self._pinned.size_bytes:
            return
        # A compressed answer could not be gone on with in the middle.
        headers = {"range": f"bytes={start}-", "accept-encoding": "identity"}
        with self._client.stream("GET", self._url, headers=headers) as response:
            if not response.is_success:
                self._refuse(response.status_code)
            with self._target.open("ab" if _goes_on(response, start) else "wb") as part:
                for chunk in response.iter_bytes():
                    part.write(chunk)
                    self._bound(part.tell())
                    self._tell(part.tell())

    def _refuse(self, status: int) -> None:
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            self._target.unlink(missing_ok=True)
        raise SourceError(f"answered {self._url} with status {status}")

    def _bound(self, size: int) -> None:
        if size > self._pinned.size_bytes:
            self._target.unlink()
            raise SourceError(f"{self._url} is larger than the pinned file")

    def _arrived(self) -> int:
        return self._target.stat().st_size if self._target.exists() else 0

    def _tell(self, arrived: int) -> None:
        """Move the progress on; a part that is fetched again does not count twice."""
        if arrived > self._told:
            self._advance(arrived - self._told)
            self._told = arrived


def _goes_on(response: httpx.Response, start: int) -> bool:
    """Return whether an answer begins where our part ends."""
    said: str = response.headers.get("content-range", "")
    return response.status_code == HTTPStatus.PARTIAL_CONTENT and said.startswith(f"bytes {start}-")
