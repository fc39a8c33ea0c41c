"""Where settings come from, and how a wrong one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.errors import ConfigurationError
from engram.settings import load_settings, to_environment
from tests.promises import promise


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "engram.toml").write_text('port = 1001\nlog = "error"\nrate_limit = 7.5\n')
    environment = {"ENGRAM_HOME": str(tmp_path), "ENGRAM_PORT": "1002", "ENGRAM_LOG": "debug"}

    settings = load_settings({"port": 1003, "host": None}, environment=environment)

    assert (settings.port, settings.log, settings.rate_limit) == (1003, "debug", 7.5)
    assert settings.host == "127.0.0.1"


@promise("clear")
def test_an_unknown_variable_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    environment = {"ENGRAM_HOME": str(tmp_path), "ENGRAM_PROT": "1"}

    with pytest.raises(ConfigurationError, match=r"ENGRAM_PROT: .*ENGRAM_PORT"):
        load_settings(environment=environment)


@promise("clear")
def test_an_unknown_key_of_the_file_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "engram.toml").write_text("worker = 2\n")

    with pytest.raises(ConfigurationError, match=r"worker: .*ENGRAM_WORKERS"):
        load_settings(environment={"ENGRAM_HOME": str(tmp_path)})


@promise("clear")
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ENGRAM_PORT", "65536"),
        ("ENGRAM_PORT", "eighty"),
        pytest.param("ENGRAM_PORT", "9" * 4_301, id="port of 4,301 digits"),
        ("ENGRAM_RATE_LIMIT", "-1"),
        ("ENGRAM_TOOLSETS", "conversations,gardening"),
        ("ENGRAM_LOG", "loud"),
        ("ENGRAM_ADMIN_TOKEN", "short"),
        ("ENGRAM_WORKERS", "0"),
        ("ENGRAM_TRASH_DAYS", "0"),
        ("ENGRAM_TRASH_DAYS", "3651"),
        ("ENGRAM_LANGUAGE_MODEL", "claude"),
    ],
)
def test_a_value_out_of_bounds_names_its_setting(tmp_path: Path, variable: str, value: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(environment={"ENGRAM_HOME": str(tmp_path), variable: value})
    assert caught.value.setting == variable


@pytest.mark.parametrize("content", [b"port = = 1", b"port = " + b"1" * 4_301, b'log = "\xff"'])
def test_a_file_that_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "engram.toml").write_bytes(content)

    with pytest.raises(ConfigurationError) as caught:
        load_settings(environment={"ENGRAM_HOME": str(tmp_path)})
    assert caught.value.setting == "engram.toml"


def test_the_file_cannot_move_the_directory_it_lies_in(tmp_path: Path) -> None:
    (tmp_path / "engram.toml").write_text('home = "/elsewhere"\n')

    with pytest.raises(ConfigurationError) as caught:
        load_settings(environment={"ENGRAM_HOME": str(tmp_path)})
    assert caught.value.setting == "engram.toml"


def test_the_default_home_follows_xdg(tmp_path: Path) -> None:
    settings = load_settings(environment={"XDG_DATA_HOME": str(tmp_path)})

    assert settings.home == tmp_path / "engram"


def test_settings_survive_the_walk_through_an_environment(tmp_path: Path) -> None:
    settings = load_settings(
        {
            "home": tmp_path,
            "port": 9000,
            "allowed_hosts": "a.example,b.example",
            "admin_token": "0123456789abcdef",
            "data_dir": "~/shared",
            "language_model": "openai:http://127.0.0.1:11434/v1#qwen:3b",
            "language_model_key": "sk-1",
        },
        environment={},
    )

    assert load_settings(environment=to_environment(settings)) == settings
    assert settings.data_dir == Path("~/shared").expanduser()
