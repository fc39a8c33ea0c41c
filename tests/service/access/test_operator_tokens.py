"""Named operators: who is let in, and what is done about a file that cannot be trusted."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from engram.errors import ConfigurationError, InvalidRequestError
from engram.service.access.credentials import OperatorTokens, new_operator_token
from tests.promises import promise

OWN = "the setting's own token"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "operators"


def write(file: Path, *lines: str, mode: int = 0o600) -> None:
    file.write_text("\n".join(lines) + "\n")
    file.chmod(mode)


def test_a_token_tells_which_operator_presents_it(file: Path) -> None:
    ada, ada_line = new_operator_token("ada")
    bob, bob_line = new_operator_token("bob@example.org")
    write(file, "# the night shift", "", ada_line, f"  {bob_line}")
    tokens = OperatorTokens(OWN, file)
    tokens.load()

    found = [tokens.find(token) for token in (ada, bob, OWN, ada + "x", "", "\ud800")]

    assert found == ["operator:ada", "operator:bob@example.org", "operator", None, None, None]


@promise("secrets")
def test_the_file_holds_no_token(file: Path) -> None:
    token, line = new_operator_token("ada")

    assert line == f"ada:{hashlib.sha256(token.encode()).hexdigest()}"
    assert len(token) > 40


def test_a_changed_file_is_read_again(file: Path) -> None:
    ada, ada_line = new_operator_token("ada")
    bob, bob_line = new_operator_token("bob")
    write(file, ada_line)
    tokens = OperatorTokens(None, file)
    tokens.load()
    assert tokens.find(ada) == "operator:ada"

    write(file, "# ada has left us", bob_line)

    assert (tokens.find(ada), tokens.find(bob)) == (None, "operator:bob")


@pytest.mark.parametrize(
    "line", ["ada", "ada:short", ":" + "0" * 64, "a b:" + "0" * 64, "ada:" + "G" * 64]
)
def test_a_wrong_line_is_named(file: Path, line: str) -> None:
    write(file, "# fine", line)

    with pytest.raises(ConfigurationError, match="line 2"):
        OperatorTokens(None, file).load()


def test_a_name_stands_once(file: Path) -> None:
    write(file, new_operator_token("ada")[1], new_operator_token("ada")[1])

    with pytest.raises(ConfigurationError, match="line 2"):
        OperatorTokens(None, file).load()


@promise("operators")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_can_use_is_refused_with_the_remedy(file: Path, mode: int) -> None:
    write(file, new_operator_token("ada")[1], mode=mode)

    with pytest.raises(ConfigurationError, match="chmod 600"):
        OperatorTokens(None, file).load()


def test_a_missing_file_and_one_too_large_are_refused(file: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        OperatorTokens(None, file).load()
    write(file, "#" * 70_000)
    with pytest.raises(ConfigurationError, match="at most 65,536 bytes"):
        OperatorTokens(None, file).load()


@promise("operators")
def test_a_file_that_goes_bad_lets_nobody_in_until_it_is_mended(file: Path) -> None:
    ada, line = new_operator_token("ada")
    write(file, line)
    tokens = OperatorTokens(OWN, file)
    tokens.load()

    write(file, line, "oops")
    while_bad = tokens.find(ada), tokens.find(OWN)
    write(file, line)

    assert while_bad == (None, "operator")
    assert tokens.find(ada) == "operator:ada"


@pytest.mark.parametrize("name", ["", "a b", "-x", "a:b", "x" * 65])
def test_an_operators_name_is_a_plain_word(name: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        new_operator_token(name)

    assert refused.value.field == "name"
