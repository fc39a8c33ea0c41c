"""The promises that Engram makes, and the mark of a test that would fail if one were broken.

`docs/promises.md` lists each with its tests; `make lint` fails for a promise without a test.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

EXAMPLES = 50
"""Examples of a property, unless it says otherwise."""

PROMISES: Mapping[str, Mapping[str, str]] = {
    "What is stored": {
        "verbatim": "Messages, notes and documents come back byte for byte: any Unicode, control characters, NUL, up to 50 MB. `doctor` proves each against its SHA-256.",
        "durable": "What was acknowledged survives `kill -9` of any process and the crash of a database; what was not is there as a whole or not at all.",
        "findable": "A search that begins after a write was acknowledged, in whichever process, can find it by word and by meaning, and says what still waits for its deep vectors.",
        "one-truth": "Texts, words, vectors, counters and queues change in one transaction. Everything derived can be dropped and built again from the texts, and `doctor` finds what does not agree.",
        "chunks": "How messages arrived does not matter: one append of a hundred and a hundred appends of one give the same windows with the same ids.",
        "processes": "Any number of processes share one store without corruption, refused locks, work done twice or stale searches.",
    },
    "What comes back": {
        "reproducible": "Reading writes nothing: the same store and the same question give the same answer in the same order.",
        "bounded": "Everything that is sent fits its token budget, in every script, and an answer says what it left out and which bound did it. What is not relevant is not sent.",
        "clear": "Whatever is wrong with a request is refused with a code, the field and the bound. No error looks like an empty answer, and no value is changed into a valid one.",
        "alone": "No network, account, extension or other server is needed at run time.",
    },
    "Who may do what": {
        "apart": "The organisation comes from the credential alone. No answer, score or error depends on what another organisation has; what is another's is as unknown as what does not exist.",
        "fair": "Nothing that a caller sends stops, fills or slows the server for others beyond its share, and bounds are checked before the work that they bound.",
        "secrets": "A key is shown once. The store, the log and the audit hold its hash or its beginning, never the key.",
        "one-refusal": "A missing, malformed, unknown, revoked or expired key gets one and the same answer.",
        "revocation": "A revoked key stops working in every process within a second.",
        "scopes": "A key does what its scopes and toolsets say, and nothing more.",
        "operators": "Only an operator's token opens `/admin`, and it opens nothing else.",
        "rates": "Requests of a key, and wrong credentials of an address, are limited; a refusal says when to come back.",
        "quotas": "Quotas count everything that is stored, exactly, also under concurrency; a warning comes at 80 %.",
        "hosts": "Requests for another Host or from another Origin are refused, and only this machine reaches a server that was not told otherwise.",
        "local": "Commands and `engram mcp` work on the local store without a key.",
        "audit": "Writes, deletions, exports, denied requests, and actions on keys and by operators are audited: who, what and when, never the content.",
        "bodies": "A body is read after the credential and the scope were checked, and up to the bound of its route.",
        "files": "Tools read and write files below the directory of their organisation alone.",
        "idempotent": "A repeated request with its idempotency key gets the first answer and stores nothing; another request with that key is a conflict.",
    },
    "Stores": {
        "private": "A store is created on first use, for its owner alone.",
        "encodings": "Each row says how its text is encoded; every encoding that ever was is read, and an unknown or damaged one is an error.",
        "backfill": "Rows of old encodings are brought up in batches that can be resumed, beside other work.",
        "migrations": "A schema moves forward only, each step whole, by one process at a time; a store of a newer version is refused untouched.",
        "backups": "A backup of a store in use has everything that was acknowledged before its instant and nothing later. One that was interrupted is not listed, and half a restore does not open as a store.",
        "erasure": "What is erased is invisible to every process when that is answered, then gone from every row, index and raw file, with a receipt; importing it again adds nothing.",
        "failures": "A store that is damaged, missing, full, locked or not ours fails with an error that says so, and other organisations go on.",
    },
    "Documents": {
        "tiers": "The size of a document decides on arrival whether its memory shows the body or a synopsis with an outline.",
        "all-or-nothing": "A document above its bound, or whose upload does not end, leaves nothing behind.",
        "whole-body": "The body of every document is stored, and all of it becomes searchable, with visible progress.",
        "removal": "Deleting takes texts, pieces, words and vectors along, in every process.",
        "spans": "Questions to a document get exact spans around matches, merged, in order, within the budget; the last is cut and never dropped.",
        "linear": "Patterns run in linear time, and no longer than their limit.",
        "spans-without-model": "Spans come with or without a language model, whose failure loses none.",
        "parts": "An upload may come in parts and be resumed by another process.",
    },
    "In and out": {
        "trash": "What is deleted with `undo` is found by nobody and counted by the quota; restored within its time it is as it was, with its ids, sequences, versions and relations, and after that it is gone.",
        "retention": "What has not changed for longer than its rule says is removed in the background, in bounded steps that any process goes on with; a dry run counts it.",
        "holds": "What is under a legal hold is deleted, trashed, expired and purged by nobody until the hold is lifted; the refusal names it.",
    },
    "Memory care": {
        "versions": "A correction keeps what was there before; history and timeline show every moment as it was.",
        "forgetting": "A forgotten memory is found no more and stays readable; a removed one leaves a tombstone and nothing else.",
        "immutable": "An immutable memory is neither corrected nor forgotten.",
        "relations": "Memories are related in eleven ways, met from both ends, up to two steps away, and never superseded in a circle.",
        "maintenance": "Consolidation needs no language model, can be tried and undone, and destroys nothing that a user stored.",
        "feedback": "What helped moves up, from a table of its own, so that recalling writes nothing.",
    },
}  # fmt: skip
"""By section: the name of each promise and what it says."""

NAMES = frozenset(name for section in PROMISES.values() for name in section)


def promise(*names: str, **sizes: int) -> pytest.MarkDecorator:
    """Mark a test, or a module as `pytestmark`, as the proof of promises.

    `sizes` says how much one run tries, such as `kills=KILLS`.
    """
    unknown = set(names) - NAMES
    if unknown or not names:
        raise ValueError(f"no such promise: {', '.join(unknown) or 'none was named'}")
    return pytest.mark.promise(*names, **sizes)
