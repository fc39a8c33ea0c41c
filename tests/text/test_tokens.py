"""The estimate of tokens, against counts of the tokenizer o200k."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.text.tokens import count_tokens, is_longer
from tests.promises import promise

TOLERANCE = 0.15

PROSE = (
    "We moved the release to Thursday because the payment tests kept failing on the second worker."
    " Ana thinks it's the clock: two of the machines differ by four seconds, and tokens that expire"
    " early look like failed logins. I'll look at it tomorrow morning, before the stand-up."
)
CODE = '''\
class Queue:
    """A queue of jobs that survive a restart."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._jobs = [Job(**line) for line in read_lines(path)]

    def claim(self, owner: str) -> Job | None:
        """Lease the oldest job that is free to `owner`; None if there is none."""
        now = self._clock.now()
        for job in self._jobs:
            if job.lease_until is None or job.lease_until <= now:
                job.lease_owner, job.lease_until = owner, now + LEASE
                self._save()
                return job
        return None

    def finish(self, job: Job, *, owner: str) -> bool:
        if job.lease_owner != owner:
            return False
        self._jobs.remove(job)
        self._save()
        return True
'''
JSON = (
    '{"results":[{"kind":"conversation","score":0.8123,"chunk_id":"chk_9fK2","tags":["work","q3"],'
    '"start_sequence":12,"end_sequence":14,"messages":[{"role":"user","content":"When is the demo?"}]}]}'
)
# ruff: noqa: RUF001 fullwidth punctuation is how Chinese is written
CHINESE = "我们把发布推迟到了星期四，因为支付测试在第二台机器上一直失败。安娜认为是时钟的问题：两台机器相差四秒。"
LOG = "2026-11-17T08:12:44.120933Z WARNING request 4f9a2c81d0b37e56 /api/v1/search 503 0.412s\n" * 4
LEAN = (
    "conv_8sKq2LmZ0aTtYw4Rb1XcV Release 2.0, 2026-03-02\n"
    "#12 Caroline: the demo is on Friday at ten\n"
    "#15 Melanie: I'll bring the slides, you bring the laptop\n"
)


@promise("bounded")
@pytest.mark.parametrize(
    ("text", "counted"),
    [
        (PROSE, 55),
        (CODE, 206),
        (JSON, 60),
        (CHINESE, 35),
        (LOG, 180),
        (LEAN, 61),
    ],
)
def test_the_estimate_is_near_the_count_of_a_tokenizer(text: str, counted: int) -> None:
    assert count_tokens(text) == pytest.approx(counted, rel=TOLERANCE)


@given(st.text())
def test_any_text_has_an_estimate_that_grows_with_it(text: str) -> None:
    estimate = count_tokens(text)

    assert 0 <= estimate <= len(text)
    assert count_tokens(text * 2) <= 2 * estimate + 1


@given(st.text(), st.integers(0, 40))
def test_a_text_is_longer_than_what_is_less_than_its_estimate(text: str, tokens: int) -> None:
    assert is_longer(text, tokens) == (count_tokens(text) > tokens)
