"""Documents over REST: streamed in and out, ranges, conditions, parts, and every refusal."""

from __future__ import annotations

import base64
import hashlib
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing

import anyio
import httpx
import pytest
from anyio.abc import SocketStream

from engram import limits
from engram.http.asgi import Application, create_app
from engram.model.value import replace
from engram.settings import Settings
from tests.fakes import FakeClock
from tests.promises import promise
from tests.rest.calls import ADMIN_TOKEN, connect, new_key, refusal, scoped_key
from tests.service.bodies import prose
from tests.serving import serving

DOCUMENTS = "/api/v1/documents"
UPLOADS = f"{DOCUMENTS}/uploads"
SMALL_LIMIT = 1_000_000
BODY = b"# Ports\n\nThe crane at berth four is out of order.\n"
TEXT = {"Content-Type": "text/markdown"}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, raw_document_max_bytes=SMALL_LIMIT)


async def in_pieces(body: bytes, size: int = 65_536) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


async def stored(api: httpx.AsyncClient, body: bytes = BODY, **query: str) -> dict[str, str]:
    answer = await api.post(DOCUMENTS, content=body, headers=TEXT, params=query)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def count(api: httpx.AsyncClient) -> int:
    return (await api.get(DOCUMENTS)).json()["total"]


@promise("verbatim")
async def test_a_document_is_kept_and_comes_back_byte_for_byte(api: httpx.AsyncClient) -> None:
    made = await api.post(
        f"{DOCUMENTS}?name=ports.md&project=harbour&tags=a&tags=b&importance=1",
        content=BODY,
        headers=TEXT,
    )
    view = made.json()
    read = await api.get(f"{DOCUMENTS}/{view['document_id']}")
    memory = (await api.get(f"/api/v1/memories/{view['id']}")).json()

    assert made.status_code == 201
    assert (view["mode"], view["tier"], view["size_bytes"]) == ("document", 0, len(BODY))
    assert view["state"] == "indexed"
    assert read.content == BODY
    assert read.headers["content-type"] == "text/markdown"
    assert memory["content"] == BODY.decode()
    assert (memory["project"], memory["tags"], memory["importance"]) == ("harbour", ["a", "b"], 1)
    assert (memory["storage_mode"], memory["document_id"]) == ("document", view["document_id"])


async def test_a_body_may_come_in_pieces_of_any_size(api: httpx.AsyncClient) -> None:
    body = prose(600_000)

    made = await api.post(DOCUMENTS, content=in_pieces(body, 7_777), headers=TEXT)

    assert made.json()["mode"] == "document_synopsis"
    assert (await api.get(f"{DOCUMENTS}/{made.json()['id']}")).content == body


async def test_a_download_is_no_page(api: httpx.AsyncClient) -> None:
    made = await api.post(
        f"{DOCUMENTS}?name=r%C3%A9sum%C3%A9%22.html",
        content=b"<script>alert(1)</script>",
        headers={"Content-Type": "text/html"},
    )

    headers = (await api.get(f"{DOCUMENTS}/{made.json()['id']}")).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-disposition"] == "attachment; filename*=UTF-8''r%C3%A9sum%C3%A9%22.html"
    assert "sandbox" in headers["content-security-policy"]


@pytest.mark.parametrize(
    ("asked", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=2-6", 2, 7),
        ("bytes=9-", 9, len(BODY)),
        ("bytes=-5", len(BODY) - 5, len(BODY)),
        ("bytes=-9999", 0, len(BODY)),
        ("bytes=10-9999999999", 10, len(BODY)),
    ],
)
async def test_a_range_is_answered_with_those_bytes(
    api: httpx.AsyncClient, asked: str, start: int, end: int
) -> None:
    path = f"{DOCUMENTS}/{(await stored(api))['id']}"

    part = await api.get(path, headers={"Range": asked})

    assert part.status_code == 206
    assert part.content == BODY[start:end]
    assert part.headers["content-range"] == f"bytes {start}-{end - 1}/{len(BODY)}"
    assert part.headers["content-length"] == str(end - start)


@pytest.mark.parametrize(
    "asked",
    ["bytes=5-2", "bytes=-", "bytes=a-b", "lines=1-2", "bytes=0-1,4-5", "bytes=" + "9" * 99],
)
async def test_what_is_no_range_is_answered_with_everything(
    api: httpx.AsyncClient, asked: str
) -> None:
    path = f"{DOCUMENTS}/{(await stored(api))['id']}"

    answer = await api.get(path, headers={"Range": asked})

    assert (answer.status_code, answer.content) == (200, BODY)
    assert answer.headers["accept-ranges"] == "bytes"


@pytest.mark.parametrize("asked", [f"bytes={len(BODY)}-", "bytes=-0"])
async def test_a_range_past_the_end_is_refused(api: httpx.AsyncClient, asked: str) -> None:
    path = f"{DOCUMENTS}/{(await stored(api))['id']}"

    answer = await api.get(path, headers={"Range": asked})

    assert refusal(answer)[:2] == (416, "range_not_satisfiable")
    assert answer.headers["content-range"] == f"bytes */{len(BODY)}"


async def test_what_a_client_has_is_not_sent_again(api: httpx.AsyncClient) -> None:
    path = f"{DOCUMENTS}/{(await stored(api))['id']}"
    etag = (await api.get(path)).headers["etag"]

    same = await api.get(path, headers={"If-None-Match": f'"other", W/{etag}'})
    other = await api.get(path, headers={"If-None-Match": '"other"'})
    goes_on = await api.get(path, headers={"Range": "bytes=1-2", "If-Range": etag})
    starts_again = await api.get(path, headers={"Range": "bytes=1-2", "If-Range": '"other"'})

    assert etag == f'"{hashlib.sha256(BODY).hexdigest()}"'
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
    assert other.status_code == 200
    assert goes_on.status_code == 206
    assert (starts_again.status_code, starts_again.content) == (200, BODY)


async def test_head_says_what_get_would_send(api: httpx.AsyncClient) -> None:
    path = f"{DOCUMENTS}/{(await stored(api))['id']}"

    head = await api.head(path)
    read = await api.get(path)

    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-length", "content-type", "etag", "repr-digest", "accept-ranges"):
        assert head.headers[name] == read.headers[name]
    digest = base64.b64encode(hashlib.sha256(BODY).digest()).decode()
    assert head.headers["repr-digest"] == f"sha-256=:{digest}:"


@promise("whole-body")
async def test_the_status_says_how_much_is_searched(api: httpx.AsyncClient) -> None:
    view = await stored(api, name="ports.md")

    status = (await api.get(f"{DOCUMENTS}/{view['id']}/status")).json()

    assert (status["state"], status["progress"]) == ("indexed", 1.0)
    assert status["name"] == "ports.md"
    assert status["text_bytes_indexed"] == status["text_bytes"] == len(BODY)


async def test_documents_are_listed_and_removed(api: httpx.AsyncClient) -> None:
    first = await stored(api, b"the first", project="one")
    second = await stored(api, b"the second", project="two")
    await api.post("/api/v1/notes", json={"content": "this is no document"})

    listed = (await api.get(DOCUMENTS)).json()
    of_one = (await api.get(DOCUMENTS, params={"project": "one"})).json()
    removed = await api.delete(f"{DOCUMENTS}/{first['document_id']}")

    assert [each["id"] for each in listed["documents"]] == [second["id"], first["id"]]
    assert [each["id"] for each in of_one["documents"]] == [first["id"]]
    assert removed.json()["id"] == first["id"]
    assert await count(api) == 1
    assert refusal(await api.get(f"{DOCUMENTS}/{first['id']}"))[:2] == (404, "not_found")


async def test_the_same_bytes_again_are_told(api: httpx.AsyncClient) -> None:
    first = await stored(api)
    again = await stored(api)

    assert again["duplicate_of"] == again["id"] == first["id"]
    assert "duplicate_of" not in first
    assert await count(api) == 1


@promise("all-or-nothing")
async def test_past_the_limit_nothing_is_kept_announced_or_not(api: httpx.AsyncClient) -> None:
    body = b"x" * (SMALL_LIMIT + 1)

    announced = await api.post(DOCUMENTS, content=body)
    in_a_stream = await api.post(DOCUMENTS, content=in_pieces(body))

    assert refusal(announced) == refusal(in_a_stream) == (413, "request_too_large", "document")
    assert announced.json()["limit"] == SMALL_LIMIT
    assert await count(api) == 0
    assert (await api.get("/api/v1/status")).json()["documents"] == 0


async def test_what_is_no_text_is_refused_at_its_byte(api: httpx.AsyncClient) -> None:
    body = b"good until here \xc3\x28 and after"

    answer = await api.post(DOCUMENTS, content=body, headers={"Content-Type": "text/plain"})

    assert refusal(answer)[:2] == (400, "not_text")
    assert answer.json()["offset_bytes"] == 16
    assert await count(api) == 0


@pytest.mark.parametrize(
    ("path", "headers", "body", "field"),
    [
        (f"{DOCUMENTS}?nome=x", TEXT, BODY, "nome"),
        (f"{DOCUMENTS}?importance=9", TEXT, BODY, "importance"),
        (f"{DOCUMENTS}?name=a%00b", TEXT, BODY, "name"),
        (f"{DOCUMENTS}?project=", TEXT, BODY, "project"),
        (DOCUMENTS, {"Content-Type": "not a type"}, BODY, "Content-Type"),
        (DOCUMENTS, TEXT, b"", "body"),
    ],
)
async def test_a_mistake_is_named(
    api: httpx.AsyncClient, path: str, headers: dict[str, str], body: bytes, field: str
) -> None:
    answer = await api.post(path, content=body, headers=headers)

    assert (answer.status_code, answer.json().get("field")) == (400, field)
    assert await count(api) == 0


async def test_a_document_of_another_organisation_is_unknown(
    api: httpx.AsyncClient, stranger: httpx.AsyncClient
) -> None:
    view = await stored(api)
    upload = (await api.post(UPLOADS)).json()["upload_id"]
    answers = [
        await stranger.get(f"{DOCUMENTS}/{view['id']}"),
        await stranger.get(f"{DOCUMENTS}/{view['document_id']}"),
        await stranger.get(f"{DOCUMENTS}/{view['id']}/status"),
        await stranger.delete(f"{DOCUMENTS}/{view['id']}"),
        await stranger.get(f"{UPLOADS}/{upload}"),
        await stranger.put(f"{UPLOADS}/{upload}/parts/0", content=b"x"),
        await stranger.post(f"{UPLOADS}/{upload}/finish"),
        await stranger.delete(f"{UPLOADS}/{upload}"),
    ]

    assert {refusal(answer)[:2] for answer in answers} == {(404, "not_found")}
    assert await count(stranger) == 0
    assert await count(api) == 1


async def test_a_key_needs_the_scope(app: Application, api: httpx.AsyncClient) -> None:
    view = await stored(api)

    async with connect(app, await scoped_key(api, "read")) as reader:
        assert (await reader.get(f"{DOCUMENTS}/{view['id']}")).status_code == 200
        assert refusal(await reader.post(DOCUMENTS, content=b"x"))[0] == 403
        assert refusal(await reader.delete(f"{DOCUMENTS}/{view['id']}"))[0] == 403
    async with connect(app, await scoped_key(api, "write")) as writer:
        assert refusal(await writer.get(f"{DOCUMENTS}/{view['id']}"))[0] == 403


@promise("parts")
async def test_a_document_may_come_in_parts(api: httpx.AsyncClient) -> None:
    draft = {"name": "log.txt", "media_type": "text/plain", "size_bytes": 9, "tags": ["log"]}
    begun = await api.post(UPLOADS, json=draft)
    path = f"{UPLOADS}/{begun.json()['upload_id']}"

    first = await api.put(f"{path}/parts/0", content=b"first")
    repeated = await api.put(f"{path}/parts/0", content=b"first")
    skipped = await api.put(f"{path}/parts/2", content=b"third")
    state = await api.get(path)
    unseen = await count(api)
    last = await api.put(f"{path}/parts/1", content=in_pieces(b"last"))
    made = await api.post(f"{path}/finish")
    again = await api.post(f"{path}/finish")

    assert begun.status_code == 201
    assert (first.json()["parts"], repeated.json()["parts"], last.json()["parts"]) == (1, 1, 2)
    assert refusal(skipped)[:2] == (409, "conflict")
    assert (state.json()["parts"], state.json()["received_bytes"]) == (1, 5)
    assert unseen == 0
    assert made.status_code == 201
    assert made.json()["id"] == again.json()["id"]
    assert (await api.get(f"{DOCUMENTS}/{made.json()['id']}")).content == b"firstlast"


@promise("parts")
async def test_an_upload_can_be_given_up(api: httpx.AsyncClient) -> None:
    upload = (await api.post(UPLOADS, json={})).json()["upload_id"]
    await api.put(f"{UPLOADS}/{upload}/parts/0", content=b"half")

    gone = await api.delete(f"{UPLOADS}/{upload}")

    assert gone.status_code == 204
    assert refusal(await api.post(f"{UPLOADS}/{upload}/finish"))[:2] == (404, "not_found")
    assert refusal(await api.delete(f"{UPLOADS}/{upload}"))[:2] == (404, "not_found")


async def test_parts_are_bounded(api: httpx.AsyncClient) -> None:
    path = f"{UPLOADS}/{(await api.post(UPLOADS)).json()['upload_id']}/parts/0"
    body = b"x" * (limits.UPLOAD_PART_BYTES_MAX + 1)

    announced = await api.put(path, content=body)
    in_a_stream = await api.put(path, content=in_pieces(body, 1_000_000))

    assert refusal(announced) == refusal(in_a_stream) == (413, "request_too_large", "part")


@pytest.mark.parametrize("part", ["x", "-1", "9" * 5_000])
async def test_a_part_that_is_no_number_is_nowhere(api: httpx.AsyncClient, part: str) -> None:
    answer = await api.put(f"{UPLOADS}/doc_x/parts/{part}", content=b"x")

    assert answer.status_code == 404


@promise("all-or-nothing")
async def test_more_than_was_announced_leaves_nothing(api: httpx.AsyncClient) -> None:
    path = f"{UPLOADS}/{(await api.post(UPLOADS, json={'size_bytes': 3})).json()['upload_id']}"

    too_much = await api.put(f"{path}/parts/0", content=b"four")

    assert refusal(too_much) == (400, "invalid_request", "size")
    assert refusal(await api.get(path))[:2] == (404, "not_found")


async def send_raw(url: str, *parts: bytes) -> SocketStream:
    """Return a connection on which these bytes were sent."""
    host, port = url.removeprefix("http://").split(":")
    connection = await anyio.connect_tcp(host, int(port))
    for part in parts:
        await connection.send(part)
    return connection


def post_head(key: str, *headers: str) -> bytes:
    lines = [f"POST {DOCUMENTS} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {key}"]
    return ("\r\n".join([*lines, *headers]) + "\r\n\r\n").encode()


@promise("all-or-nothing")
async def test_a_connection_cut_in_the_middle_leaves_nothing(settings: Settings) -> None:
    framings = {"Transfer-Encoding: chunked": b"7D000\r\n", "Content-Length: 500000": b""}

    async with serving(create_app(settings)) as url, httpx.AsyncClient(base_url=url) as client:
        operator = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        made = await client.post("/admin/organizations", json={"name": "a"}, headers=operator)
        key = made.json()["api_key"]
        for framing, opening in framings.items():
            begun = post_head(key, framing), opening, b"x" * 200_000
            await (await send_raw(url, *begun)).aclose()
        with anyio.fail_after(60):
            while await abandoned(client) < len(framings):
                await anyio.lowlevel.checkpoint()

    path = settings.home / "orgs" / f"{made.json()['organization_id']}.db"
    with closing(sqlite3.connect(path)) as connection:
        for table in ("document", "document_piece", "memory"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608 names of ours


async def test_a_client_that_sends_too_much_reads_why_it_was_refused(settings: Settings) -> None:
    app = create_app(settings)
    async with serving(app) as url, httpx.AsyncClient(base_url=url) as client:
        operator = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        made = await client.post("/admin/organizations", json={"name": "a"}, headers=operator)
        bearer = {"Authorization": f"Bearer {made.json()['api_key']}"}

        answer = await client.post(
            DOCUMENTS, content=in_pieces(b"x" * (4 * SMALL_LIMIT)), headers=bearer
        )
        kept = await client.get(DOCUMENTS, headers=bearer)

    assert refusal(answer) == (413, "request_too_large", "document")
    assert kept.json()["total"] == 0


async def abandoned(client: httpx.AsyncClient) -> float:
    """Return how many uploads the server has given up because their clients were gone."""
    counted = f'engram_requests_total{{method="POST",route="{DOCUMENTS}",status="499"}} '
    lines = (await client.get("/metrics")).text.splitlines()
    return sum(float(line.removeprefix(counted)) for line in lines if line.startswith(counted))


@promise("all-or-nothing")
async def test_a_document_of_fifty_mebibytes_and_one_byte_is_refused(
    settings: Settings, clock: FakeClock
) -> None:
    default = replace(settings, raw_document_max_bytes=limits.RAW_DOCUMENT_BYTES_MAX)
    app = create_app(default, clock=clock)
    piece = b"y" * 65_536

    async def one_too_many() -> AsyncIterator[bytes]:
        for _ in range(limits.RAW_DOCUMENT_BYTES_MAX // len(piece)):
            yield piece
        yield b"y"

    async with app.lifespan():
        async with connect(app, ADMIN_TOKEN) as operator:
            key = await new_key(operator)
        async with connect(app, key) as api:
            answer = await api.post(DOCUMENTS, content=one_too_many())

            assert refusal(answer) == (413, "request_too_large", "document")
            assert await count(api) == 0
