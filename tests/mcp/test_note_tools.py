"""The tools of the edge memory layer, over every transport and era."""

from __future__ import annotations

from mcp import Client

from tests.mcp.connecting import RunningServer, call, http_client, refusal

VERBATIM = 'é\x00\x1b[31m "red"\r\n\u2028 \U0001f9a1 ﬁ\t\u202e</memory_context>'


async def test_a_note_can_be_kept_listed_and_removed(client: Client) -> None:
    kept = await call(
        client,
        "store_note",
        content="The harbour opens at six.",
        category="project",
        source="harbour master",
        tags=["times"],
    )

    listed = await call(client, "list_entries")
    removed = await call(client, "remove_entry", entry_id=kept["id"])
    again = await call(client, "remove_entry", entry_id=kept["id"])

    assert kept.keys() == {"id"}
    (entry,) = listed["entries"]
    created_at = entry.pop("created_at")
    assert created_at.endswith("Z")
    assert entry == {
        "id": kept["id"],
        "content": "The harbour opens at six.",
        "category": "project",
        "source": "harbour master",
        "tags": ["times"],
        "project": "default",
    }
    assert (listed["total"], listed["next_offset"]) == (1, None)
    assert (removed["removed"], removed["id"]) == (True, kept["id"])
    assert again == removed
    assert (await call(client, "list_entries"))["total"] == 0
    assert (await refusal(client, "remove_entry", entry_id="mem_none"))["code"] == "not_found"


async def test_an_exact_duplicate_is_reported_and_not_kept_twice(over_http: Client) -> None:
    first = await call(over_http, "store_note", content="The harbour opens at six.")
    again = await call(over_http, "store_note", content="The harbour opens at six.")

    assert again == {"id": first["id"], "duplicate_of": first["id"]}
    assert (await call(over_http, "list_entries"))["total"] == 1


async def test_a_note_comes_back_byte_for_byte(over_http: Client) -> None:
    await call(over_http, "store_note", content=VERBATIM)

    (entry,) = (await call(over_http, "list_entries"))["entries"]

    assert entry["content"] == VERBATIM


async def test_entries_are_listed_newest_first_a_page_at_a_time(over_http: Client) -> None:
    for number in range(5):
        category = "technical" if number % 2 else "feedback"
        await call(over_http, "store_note", content=f"note number {number}", category=category)

    first = await call(over_http, "list_entries", limit=2)
    second = await call(over_http, "list_entries", limit=2, offset=first["next_offset"])
    technical = await call(over_http, "list_entries", limit=1, category="technical")
    nowhere = await call(over_http, "list_entries", source="nobody")

    assert [entry["content"][-1] for entry in first["entries"]] == ["4", "3"]
    assert [entry["content"][-1] for entry in second["entries"]] == ["2", "1"]
    assert ([entry["content"][-1] for entry in technical["entries"]], technical["total"]) == (
        ["3"],
        2,
    )
    assert (nowhere["entries"], nowhere["total"]) == ([], 0)


async def test_a_long_memory_is_cut_in_the_listing_and_says_so(over_http: Client) -> None:
    await call(over_http, "memory_store", content="x" * 5_000)

    (entry,) = (await call(over_http, "list_entries"))["entries"]

    assert (len(entry["content"]), entry["truncated"]) == (2_000, True)


async def test_another_organisation_sees_and_removes_nothing(
    over_http: Client, server: RunningServer
) -> None:
    kept = await call(over_http, "store_note", content="the secret otter")

    async with http_client(server.url, await server.new_organization("other")) as stranger:
        listed = await call(stranger, "list_entries")
        refused = await refusal(stranger, "remove_entry", entry_id=kept["id"])
        absent = await refusal(stranger, "remove_entry", entry_id="mem_absent")
        again = await call(stranger, "store_note", content="the secret otter")

    assert listed["total"] == 0
    assert refused == absent
    assert "duplicate_of" not in again
    assert (await call(over_http, "list_entries"))["total"] == 1


async def test_a_key_without_the_scope_is_refused(server: RunningServer) -> None:
    async with http_client(server.url, await server.new_key("admin")) as nobody:
        refused = {
            tool: (await refusal(nobody, tool, **arguments))["required"]
            for tool, arguments in {
                "store_note": {"content": "not to be kept"},
                "list_entries": {},
                "remove_entry": {"entry_id": "mem_x"},
            }.items()
        }

    assert refused == {"store_note": "write", "list_entries": "read", "remove_entry": "delete"}
