"""Secrets are replaced by their kind, and nothing that only looks like one is."""

from __future__ import annotations

import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.privacy.secrets import RULES, redact

DIGITS = string.digits
LETTERS = string.ascii_letters + DIGITS
HEXADECIMAL = "0123456789abcdef"
BEGIN, END = (f"-----{each} RSA PRIVATE KEY-----" for each in ("BEGIN", "END"))


def made(length: int, alphabet: str = LETTERS) -> str:
    """Return characters that look random, and are the same in every run."""
    return "".join(random.Random(length).choices(alphabet, k=length))  # noqa: S311 no real secret


SAMPLES = {
    "private-key": f"{BEGIN}\n{made(64)}\n{made(40)}\n{END}",
    "age-key": "AGE-SECRET-KEY-1" + made(58, string.ascii_uppercase),
    "engram-key": "engram_sk_live_" + made(32),
    "anthropic-key": "sk-ant-api03-" + made(95),
    "openrouter-key": "sk-or-v1-" + made(64, HEXADECIMAL),
    "openai-key": "sk-proj-" + made(48),
    "github-token": "ghp_" + made(36),
    "gitlab-token": "glpat-" + made(20),
    "aws-access-key": "AKIA" + made(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    "aws-secret-key": "aws_secret_access_key = " + made(40),
    "google-key": "AIza" + made(35),
    "azure-key": "AccountKey=" + made(86) + "==",
    "npm-token": "npm_" + made(36),
    "pypi-token": "pypi-AgE" + made(60),
    "huggingface-token": "hf_" + made(34),
    "slack-token": "xoxb-" + made(12, DIGITS) + "-" + made(24),
    "slack-webhook": "https://hooks.slack.com/services/T0000/B0000/" + made(24),
    "stripe-key": "sk_live_" + made(24),
    "telegram-token": made(9, DIGITS) + ":AA" + made(33),
    "twilio-key": "SK" + made(32, HEXADECIMAL),
    "json-web-token": f"eyJ{made(20)}.eyJ{made(30)}.{made(40)}",
    "authorization": "Authorization: Bearer " + made(40),
    "url-password": "postgres://app:hunter2@db/shop",
    "environment": "DB_PASSWORD=correct-horse",
    "assigned": f"client_secret: '{made(30)}'",
}

REPLACED = {
    "aws-secret-key": "aws_secret_access_key = {}",
    "azure-key": "AccountKey={}",
    "authorization": "Authorization: Bearer {}",
    "url-password": "postgres://app:{}@db/shop",
    "environment": "DB_PASSWORD={}",
    "assigned": "client_secret: '{}'",
}
"""What stays of the samples in which the secret has a name."""

HARMLESS = [
    "token = get_token()",
    "password: string",
    "max_tokens: 1234567890",
    "MAX_TOKENS=100000",
    "https://example.com:8080/a@b",
    "API_KEY=$SECRET and TOKEN=${TOKEN}",
    "secret: 2026-11-17",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "mem_V1StGXR8_Z5jdHi6B-myT",
    f"{BEGIN} is how such a file begins",
    "the passwords are in the vault, ask Ada",
]


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_secret_is_replaced_by_its_kind(kind: str) -> None:
    shown = REPLACED.get(kind, "{}").format(f"[redacted:{kind}]")

    assert redact(f"before {SAMPLES[kind]} after") == f"before {shown} after"


def test_a_key_that_was_cut_off_is_replaced_too() -> None:
    key = made(64)

    assert key not in redact(f"{BEGIN}\n{key}\n")
    assert key not in redact(f'"{BEGIN}\\n{key}\\n')


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@given(
    st.lists(st.sampled_from([*SAMPLES.values(), *HARMLESS, " ", "\n", "=", "é", "\ud800", '"']))
)
def test_redacting_twice_changes_nothing(parts: list[str]) -> None:
    once = redact("".join(parts))

    assert redact(once) == once


@given(st.text(st.characters(blacklist_characters=":=/")))
def test_texts_in_any_script_stay(text: str) -> None:
    assert redact(text) == text


def test_kinds_are_plain_names() -> None:
    assert all(set(kind) <= set(string.ascii_lowercase + "-") for kind in RULES)
