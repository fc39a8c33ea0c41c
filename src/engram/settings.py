"""Settings: flags win over the environment, the environment over `engram.toml`, that over defaults.

This is the only module that reads the environment.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    field_validator,
)

from engram import limits
from engram.embedding.choice import EmbedderChoice, LocalModel, parse_choice
from engram.errors import ConfigurationError
from engram.language.choice import LanguageChoice, NoLanguageModel, parse_language_choice
from engram.model.authority import host_named
from engram.model.toolsets import DEFAULT_TOOLSETS, Toolset

PREFIX = "ENGRAM_"
FILE_NAME = "engram.toml"

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["plain", "json"]


def _parse_embedder(value: object) -> EmbedderChoice:
    return parse_choice(value) if isinstance(value, str) else cast("EmbedderChoice", value)


def _parse_language_model(value: object) -> LanguageChoice:
    if isinstance(value, str):
        return parse_language_choice(value)
    return cast("LanguageChoice", value)


class Settings(BaseModel):
    """Every setting, with its default and what it is for."""

    # What was given may be a secret, so errors do not repeat it.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    home: Annotated[Path, Field(description="Directory of the store; created on first use.")]
    database_url: Annotated[
        str | None,
        Field(
            pattern="^postgres(ql)?://",
            repr=False,
            description="PostgreSQL database of the store; without it the store is in the directory.",
        ),
    ] = None
    database_read_url: Annotated[
        str | None,
        Field(
            pattern="^postgres(ql)?://",
            repr=False,
            description="Replica of that database, which answers reads when it is not too old.",
        ),
    ] = None
    database_staleness: Annotated[
        float,
        Field(
            ge=0,
            le=3_600,
            description="Seconds by which a replica's answers may be behind what others wrote; "
            "with 0 the primary is asked each time whether they are.",
        ),
    ] = 0.0
    database_timeout: Annotated[
        float,
        Field(
            ge=0,
            le=86_400,
            description="Seconds that one statement of a request may take in that database; 0 is "
            "without limit. Migrations, moves and building indexes have none.",
        ),
    ] = float(limits.STATEMENT_S)
    host: Annotated[str, Field(description="Address the server binds.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535, description="Port the server binds.")] = 8788
    workers: Annotated[int, Field(ge=1, le=64, description="Server processes.")] = 1
    admin_token: Annotated[
        str | None,
        Field(
            min_length=16,
            description="Operator's token; without it, and without a file of tokens, /admin is off.",
        ),
    ] = None
    admin_tokens_file: Annotated[
        Path | None,
        Field(
            description="File of operators' tokens, `name:sha256` in each line; nobody else may "
            "read it."
        ),
    ] = None
    audit_log: Annotated[
        str | None,
        Field(
            description="Where every audit row goes as a line of JSON: a file, `syslog:`, "
            "`syslog:<socket>` or `syslog:<host>:<port>`."
        ),
    ] = None
    allowed_hosts: Annotated[
        tuple[str, ...],
        Field(
            description="Host names, comma-separated, accepted beside loopback ones; * is every name."
        ),
    ] = ()
    rate_limit: Annotated[
        float, Field(ge=0, description="Requests a second for each key; 0 is without limit.")
    ] = 500.0
    connections_max: Annotated[
        int, Field(ge=16, le=100_000, description="Open connections of each server process.")
    ] = limits.CONNECTIONS_MAX
    connections_per_address_max: Annotated[
        int,
        Field(
            ge=1,
            le=100_000,
            description="Of these from one address; behind a proxy, where all clients share one, "
            "as many as in all.",
        ),
    ] = limits.CONNECTIONS_PER_ADDRESS_MAX
    toolsets: Annotated[
        tuple[Toolset, ...], Field(min_length=1, description="MCP toolsets shown to clients.")
    ] = DEFAULT_TOOLSETS
    embedder: Annotated[
        EmbedderChoice,
        PlainValidator(_parse_embedder),
        Field(
            description="What makes vectors: `local`, `local:<name>`, `onnx:<directory>`, "
            "`openai:<url>#<model>`, `hash` or `none`."
        ),
    ] = LocalModel()
    embedder_key: Annotated[str | None, Field(description="Key for the service of `openai:`.")] = (
        None
    )
    embedder_threads: Annotated[
        int, Field(ge=1, le=64, description="Texts a model of this process indexes at once.")
    ] = 1
    language_model: Annotated[
        LanguageChoice,
        PlainValidator(_parse_language_model),
        Field(
            description="What writes summaries: `anthropic:<model>`, `anthropic:<url>#<model>`, "
            "`openai:<url>#<model>` or `none`."
        ),
    ] = NoLanguageModel()
    language_model_key: Annotated[str | None, Field(description="Key for its service.")] = None
    data_dir: Annotated[
        Path | None,
        Field(
            description="Directory of files for tools, one part for each organisation; without it they use none."
        ),
    ] = None
    max_document_bytes: Annotated[
        int,
        Field(
            ge=limits.WHOLE_DOCUMENT_BYTES_MAX,
            le=limits.CONFIGURED_DOCUMENT_BYTES_MAX,
            description="Where tier 1 of documents ends, in bytes.",
        ),
    ] = limits.DOCUMENT_BYTES_MAX
    raw_document_max_bytes: Annotated[
        int,
        Field(
            ge=1,
            le=limits.CONFIGURED_DOCUMENT_BYTES_MAX,
            description="The largest document, in bytes; a larger one is refused.",
        ),
    ] = limits.RAW_DOCUMENT_BYTES_MAX
    model_dir: Annotated[Path, Field(description="Directory of model files.")] = Field(
        default_factory=lambda: _default_model_dir(os.environ)
    )
    model_hub: Annotated[
        str, Field(pattern="^https?://", description="Where `engram models pull` asks first.")
    ] = "https://huggingface.co"
    vector_memory_mb: Annotated[
        int, Field(ge=16, le=1_000_000, description="Memory for vectors in each process.")
    ] = limits.VECTOR_BYTES_MAX // 1_000_000
    log: Annotated[LogLevel, Field(description="Least severe level that is logged.")] = "info"
    log_format: Annotated[
        LogFormat, Field(description="Lines for people, or JSON for programs.")
    ] = "plain"
    url: Annotated[str | None, Field(description="Server that `engram mcp` relays to.")] = None
    api_key: Annotated[str | None, Field(description="Key for that server.")] = None

    @property
    def store_place(self) -> str:
        """Where the store is, to be shown: without user, password and options."""
        if self.database_url is None:
            return str(self.home)
        # Options may hold a user and a password as well as what stands before the host does.
        scheme, separator, rest = self.database_url.partition("?")[0].partition("://")
        return scheme + separator + rest.rpartition("@")[2]

    @field_validator("allowed_hosts", "toolsets", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("allowed_hosts")
    @classmethod
    def _check_hosts(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name != "*" and host_named(name) is None:
                raise ValueError(f"{name!r} is not a host name or an address")
        return names


def load_settings(
    flags: Mapping[str, Any] | None = None, *, environment: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings in force.

    Raises:
        ConfigurationError: a setting is unknown or its value is wrong.
    """
    source = os.environ if environment is None else environment
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    from_environment = _from_environment(source)
    home = given.get("home") or from_environment.get("home") or _default_home(source)
    merged: dict[str, Any] = {
        "model_dir": _default_model_dir(source),
        **_from_file(Path(home)),
        **from_environment,
        **given,
        "home": Path(home).expanduser(),
    }
    for name in ("model_dir", "data_dir", "admin_tokens_file"):
        if merged.get(name) is not None:
            merged[name] = Path(merged[name]).expanduser()
    try:
        return Settings.model_validate(merged)
    except ValidationError as exc:
        error = exc.errors()[0]
        # A validator of our own has the better words; pydantic puts its own before them.
        reason = error.get("ctx", {}).get("error") or error["msg"]
        raise ConfigurationError(_shown(str(error["loc"][0])), str(reason)) from exc


def to_environment(settings: Settings) -> dict[str, str]:
    """Return the variables from which another process loads equal settings."""
    variables = dict[str, str]()
    for name, value in settings:
        if value is not None:
            variables[_shown(name)] = _as_text(value)
    return variables


def export_settings(settings: Settings) -> None:
    """Let the processes that this one starts load equal settings."""
    os.environ.update(to_environment(settings))


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(str(part) for part in cast("tuple[object, ...]", value))
    return str(value)


def allows_color(environment: Mapping[str, str] | None = None) -> bool:
    """Return whether a terminal may get colours (https://no-color.org)."""
    source = os.environ if environment is None else environment
    return not source.get("NO_COLOR") and source.get("TERM") != "dumb"


def _from_environment(source: Mapping[str, str]) -> dict[str, str]:
    given = dict[str, str]()
    for variable, value in source.items():
        if variable.startswith(PREFIX) and value:
            name = variable.removeprefix(PREFIX).lower()
            _check_known(name, shown=variable)
            given[name] = value
    return given


def _from_file(home: Path) -> dict[str, Any]:
    path = home.expanduser() / FILE_NAME
    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise ConfigurationError(FILE_NAME, str(exc)) from exc
    for name in content:
        _check_known(name, shown=f"{FILE_NAME}: {name}")
        if name == "home":
            raise ConfigurationError(FILE_NAME, "home cannot be set in the file it leads to")
    return content


def _check_known(name: str, *, shown: str) -> None:
    if name in Settings.model_fields:
        return
    near = difflib.get_close_matches(name, Settings.model_fields, n=1, cutoff=0.0)
    raise ConfigurationError(shown, f"unknown setting; did you mean {_shown(near[0])}?")


def _shown(name: str) -> str:
    return PREFIX + name.upper()


def _default_model_dir(source: Mapping[str, str]) -> Path:
    base = source.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "engram" / "models"


def _default_home(source: Mapping[str, str]) -> Path:
    base = source.get("XDG_DATA_HOME")
    return (Path(base) if base else Path("~/.local/share").expanduser()) / "engram"
