"""Settings: flags win over the environment, the environment over `engram.toml`, that over defaults.

This is the only module that reads the environment. It imports no validation library: every command
starts here, and pydantic takes longer to import than most commands take to run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from engram import limits
from engram.embedding.choice import EmbedderChoice, LocalModel, parse_choice
from engram.environment import default_home
from engram.errors import ConfigurationError, InvalidRequestError
from engram.language import LanguageChoice, NoLanguageModel, parse_language_choice
from engram.model.access import DEFAULT_TOOLSETS, TOOLSETS, Toolset
from engram.model.authority import host_named
from engram.model.fields import Between, Length
from engram.model.value import Value, defaults_of

if TYPE_CHECKING:
    from engram.sources.places import Places

PREFIX = "ENGRAM_"
FILE_NAME = "engram.toml"
_SIBLINGS = "_ENGRAM_SIBLINGS"

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["plain", "json"]
Switch = Literal["on", "off"]

Read = Callable[[Any], Any]
"""Parses the value of a setting, and raises ValueError with the reason if it is wrong."""


class Scheme:
    """A URL with one of a few schemes."""

    def __init__(self, *schemes: str) -> None:
        self._starts = tuple(f"{scheme}://" for scheme in schemes)

    def check(self, field: str, value: str) -> None:
        if not value.startswith(self._starts):
            raise InvalidRequestError(f"must begin with {' or '.join(self._starts)}", field=field)


POSTGRES = Scheme("postgres", "postgresql")


def _from_text(parse: Callable[[str], Any]) -> Read:
    return lambda value: parse(_read_text(value))


def _read_names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    names = cast("tuple[object, ...]", value) if isinstance(value, list | tuple) else (None,)
    return tuple(map(_read_text, names))


def _read_hosts(value: object) -> tuple[str, ...]:
    names = _read_names(value)
    for name in names:
        if name != "*" and host_named(name) is None:
            raise ValueError(f"{name!r} is not a host name or an address")
    return names


def _read_toolsets(value: object) -> tuple[Toolset, ...]:
    names = _read_names(value)
    if not names:
        raise ValueError(f"must be some of {', '.join(TOOLSETS)}")
    return tuple(_read_choice(TOOLSETS, name) for name in names)


def _read_aliases(value: object) -> tuple[str, ...]:
    """Read pairs `place=project`, or a table of them."""
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        value = [f"{place}={_read_text(name)}" for place, name in table.items()]
    pairs = _read_names(value)
    for pair in pairs:
        place, separator, name = pair.rpartition("=")
        if not (place and separator and name):
            raise ValueError(f"{pair!r} is not place=project")
    return pairs


def _read_hooks(value: object) -> Switch:
    # Programs that start others set 0, as many variables of this kind are set.
    return _read_choice(get_args(Switch), {"0": "off", "1": "on"}.get(str(value), value))


class Settings(Value):
    """Every setting, with its default and what it is for."""

    home: Annotated[Path, "Directory of the store; created on first use."]
    database_url: Annotated[
        str | None,
        POSTGRES,
        "PostgreSQL database of the store; without it the store is in the directory.",
    ] = None
    database_read_url: Annotated[
        str | None,
        POSTGRES,
        "Replica of that database, which answers reads when it is not too old.",
    ] = None
    database_direct_url: Annotated[
        str | None,
        POSTGRES,
        "The same database past a pooler in transaction mode; needed if the first URL is that of one.",
    ] = None
    database_staleness: Annotated[
        float,
        Between(0, 3_600),
        "Seconds by which a replica's answers may be behind what others wrote; with 0 the primary is "
        "asked each time whether they are.",
    ] = 0.0
    database_timeout: Annotated[
        float,
        Between(0, 86_400),
        "Seconds that one statement of a request may take in that database; 0 is without limit. "
        "Migrations, moves and building indexes have none.",
    ] = float(limits.STATEMENT_S)
    database_connections: Annotated[
        int,
        Between(4, 1_000),
        "Connections of a process to that database, and to each server of a cluster, at most.",
    ] = limits.DATABASE_CONNECTIONS
    host: Annotated[str, "Address the server binds."] = "127.0.0.1"
    port: Annotated[int, Between(0, 65_535), "Port the server binds."] = 8788
    workers: Annotated[int, Between(1, 64), "Server processes."] = 1
    admin_token: Annotated[
        str | None,
        Length(16),
        "Operator's token; without it, and without a file of tokens, /admin is off.",
    ] = None
    admin_tokens_file: Annotated[
        Path | None,
        "File of operators' tokens, `name:sha256` in each line; nobody else may read it.",
    ] = None
    audit_log: Annotated[
        str | None,
        "Where every audit row goes as a line of JSON: a file, `syslog:`, `syslog:<socket>` or "
        "`syslog:<host>:<port>`.",
    ] = None
    allowed_hosts: Annotated[
        tuple[str, ...],
        _read_hosts,
        "Host names, comma-separated, accepted beside loopback ones; * is every name.",
    ] = ()
    rate_limit: Annotated[
        float,
        Between(0, limits.WHOLE_NUMBER_MAX),
        "Requests a second for each key; 0 is without limit.",
    ] = 500.0
    connections_max: Annotated[
        int, Between(16, 100_000), "Open connections of each server process."
    ] = limits.CONNECTIONS_MAX
    connections_per_address_max: Annotated[
        int,
        Between(1, 100_000),
        "Of these from one address; behind a proxy, where all clients share one, as many as in all.",
    ] = limits.CONNECTIONS_PER_ADDRESS_MAX
    toolsets: Annotated[
        tuple[Toolset, ...] | None, _read_toolsets, "MCP toolsets shown to clients."
    ] = None
    embedder: Annotated[
        EmbedderChoice,
        _from_text(parse_choice),
        "What makes vectors: `local`, `local:<name>`, `onnx:<directory>`, `openai:<url>#<model>`, "
        "`hash` or `none`.",
    ] = LocalModel()
    embedder_key: Annotated[str | None, "Key for the service of `openai:`."] = None
    embedder_threads: Annotated[
        int, Between(1, 64), "Texts a model of this process indexes at once."
    ] = 1
    late_interaction: Annotated[
        Switch,
        "Whether searches also compare words one by one, by vectors of tokens that are stored with each "
        "message; the embedder must be `local`.",
    ] = "off"
    language_model: Annotated[
        LanguageChoice,
        _from_text(parse_language_choice),
        "What writes summaries: `anthropic:<model>`, `anthropic:<url>#<model>`, "
        "`openai:<url>#<model>` or `none`.",
    ] = NoLanguageModel()
    language_model_key: Annotated[str | None, "Key for its service."] = None
    data_dir: Annotated[
        Path | None,
        "Directory of files for tools, one part for each organisation; without it they use none.",
    ] = None
    max_document_bytes: Annotated[
        int,
        Between(limits.WHOLE_DOCUMENT_BYTES_MAX, limits.CONFIGURED_DOCUMENT_BYTES_MAX),
        "Where tier 1 of documents ends, in bytes.",
    ] = limits.DOCUMENT_BYTES_MAX
    raw_document_max_bytes: Annotated[
        int,
        Between(1, limits.CONFIGURED_DOCUMENT_BYTES_MAX),
        "The largest document, in bytes; a larger one is refused.",
    ] = limits.RAW_DOCUMENT_BYTES_MAX
    model_dir: Annotated[Path, "Directory of model files."] = msgspec.field(
        default_factory=lambda: _default_model_dir(os.environ)
    )
    model_hub: Annotated[str, Scheme("http", "https"), "Where `engram models pull` asks first."] = (
        "https://huggingface.co"
    )
    trash_days: Annotated[
        int,
        Between(1, limits.TRASH_DAYS_MAX),
        "Days for which what is deleted with `undo` can be restored; what is in the trash keeps its time.",
    ] = limits.TRASH_DAYS
    scrub_rate: Annotated[
        int,
        Between(0, limits.WHOLE_NUMBER_MAX),
        "Bytes a second that a server reads in the background to prove what is stored; 0 reads none.",
    ] = limits.SCRUB_BYTES_PER_S
    vector_memory_mb: Annotated[
        int, Between(16, 1_000_000), "Memory for vectors in each process."
    ] = limits.VECTOR_BYTES_MAX // 1_000_000
    engine_idle: Annotated[
        float,
        Between(0, 86_400),
        "Seconds after its last client that the process shared by all local clients ends; with 0 "
        "every process opens the store itself.",
    ] = float(limits.ENGINE_IDLE_S)
    hooks: Annotated[
        Switch,
        _read_hooks,
        "Whether `engram hook` does anything; `off` or 0 for agents that a program starts by itself.",
    ] = "on"
    hook_log: Annotated[
        Switch,
        "Whether the store notes what agents were told by hooks and answered by tools, for `engram hook log` "
        "and the page.",
    ] = "on"
    only: Annotated[
        tuple[str, ...],
        _read_names,
        "The only places whose sessions are kept and get memories, comma-separated: directories with "
        "all below them, or projects; `*` stands for any characters. Without it all are.",
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        _read_names,
        "Places whose sessions are not kept and get no memories, written in the same way.",
    ] = ()
    project_aliases: Annotated[
        tuple[str, ...],
        _read_aliases,
        "Names of projects, `place=project`, comma-separated, where a place is a directory or a name "
        "that was found otherwise.",
    ] = ()
    redact: Annotated[
        Switch,
        "Whether hooks and imports replace secrets by `[redacted:kind]` before they store a text.",
    ] = "on"
    log: Annotated[LogLevel, "Least severe level that is logged."] = "info"
    log_format: Annotated[LogFormat, "Lines for people, or JSON for programs."] = "plain"
    url: Annotated[
        str | None, "Server that `engram mcp` and commands use instead of the local store."
    ] = None
    api_key: Annotated[str | None, "Key for that server."] = None

    @property
    def shown_toolsets(self) -> tuple[Toolset, ...]:
        """The toolsets that were chosen, else the default ones."""
        return self.toolsets or DEFAULT_TOOLSETS

    @property
    def aliases(self) -> dict[str, str]:
        """The names of projects by place."""
        pairs = (pair.rpartition("=") for pair in self.project_aliases)
        return {place: name for place, _, name in pairs}

    @property
    def store_place(self) -> str:
        """Where the store is, to be shown: without user, password and options."""
        return (
            str(self.home) if self.database_url is None else without_credentials(self.database_url)
        )

    def __repr__(self) -> str:
        # Other settings may be secrets.
        return f"Settings({self.store_place!r})"


def without_credentials(url: str) -> str:
    """Return a URL without its user, password and options, any of which may be secret."""
    scheme, separator, rest = url.partition("?")[0].partition("://")
    return scheme + separator + rest.rpartition("@")[2]


class Setting(Value):
    """How one setting is parsed, and its documentation."""

    read: Read
    bounds: tuple[Any, ...]
    description: str
    default: Any = None


@cache
def all_settings() -> Mapping[str, Setting]:
    """Return every setting by its name."""
    hints, defaults = get_type_hints(Settings, include_extras=True), defaults_of(Settings)
    return {name: _setting(*get_args(hints[name]), default=defaults.get(name)) for name in hints}


def _setting(kind: Any, *marks: Any, default: object) -> Setting:
    inner = [each for each in get_args(kind) if each is not NoneType]
    plain = inner[0] if NoneType in get_args(kind) else kind
    own = [mark for mark in marks if callable(mark)]
    return Setting(
        read=own[0] if own else _reader_of(plain),
        bounds=tuple(mark for mark in marks if hasattr(mark, "check")),
        description=marks[-1],
        default=default,
    )


def _reader_of(kind: Any) -> Read:
    if get_origin(kind) is Literal:
        return partial(_read_choice, get_args(kind))
    return {Path: _read_path, int: _read_whole, float: _read_number, str: _read_text}[kind]


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a text")  # noqa: TRY004 the callers' one error
    return value


def _read_path(value: object) -> Path:
    return (value if isinstance(value, Path) else Path(_read_text(value))).expanduser()


def _read_choice(choices: tuple[Any, ...], value: object) -> Any:
    if value not in choices:
        raise ValueError(f"must be one of {', '.join(choices)}")
    return value


def _read_whole(value: Any) -> int:
    number = _read_number(value)
    if not number.is_integer():
        raise ValueError("must be a whole number")
    return int(number)


def _read_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise ValueError("must be a number") from exc


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
        "home": home,
    }
    return Settings(**{name: _parse(name, value) for name, value in merged.items()})


def _parse(name: str, value: object) -> Any:
    setting = all_settings()[name]
    try:
        parsed = setting.read(value)
        for bound in setting.bounds:
            bound.check(name, parsed)
    except InvalidRequestError as exc:
        raise ConfigurationError(_shown(name), exc.message) from exc
    except ValueError as exc:
        raise ConfigurationError(_shown(name), str(exc)) from exc
    return parsed


def to_environment(settings: Settings) -> dict[str, str]:
    """Return the variables from which another process loads equal settings."""
    values = {name: getattr(settings, name) for name in Settings.__struct_fields__}
    return {_shown(name): _as_text(value) for name, value in values.items() if value is not None}


def child_environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a process with equal settings, in whatever directory it runs."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}
    paths = {
        _shown(name): str(value.absolute())
        for name in Settings.__struct_fields__
        if isinstance(value := getattr(settings, name), Path)
    }
    return {**inherited, **to_environment(settings), **paths}


_OF_A_SERVER = frozenset(
    {
        *("url", "api_key", "log", "log_format", "model_hub", "host", "port", "workers"),
        *("allowed_hosts", "admin_token", "admin_tokens_file", "rate_limit"),
        *("connections_max", "connections_per_address_max"),
    }
)
_SECRETS = frozenset(
    {
        "database_url",
        "database_read_url",
        "database_direct_url",
        "embedder_key",
        "language_model_key",
    }
)


def lasting_variables(settings: Settings) -> dict[str, str]:
    """Return the variables by which a process that inherits none uses the same store in the same way.

    Raises:
        ConfigurationError: one of them is a secret, which belongs in `engram.toml` instead.
    """
    home = str(settings.home.absolute())
    alone = load_settings(environment={_shown("home"): home})
    needed = {_shown("home"): home}
    for name in Settings.__struct_fields__:
        value = getattr(settings, name)
        if name in _OF_A_SERVER or name == "home" or value == getattr(alone, name):
            continue
        if name in _SECRETS:
            raise ConfigurationError(
                _shown(name),
                f"clients would not get it: set {name} in {settings.home / FILE_NAME}, or connect "
                "them to a running server with --url",
            )
        needed[_shown(name)] = str(value.absolute()) if isinstance(value, Path) else _as_text(value)
    return needed


def is_default_home(home: Path) -> bool:
    """Return True if a process that inherits no variables uses this directory."""
    return home.absolute() == _default_home({})


def export_settings(settings: Settings, *, siblings: Path | None) -> None:
    """Let the processes that this one starts load equal settings, and find each other's sockets."""
    os.environ.update(to_environment(settings))
    if siblings is not None:
        os.environ[_SIBLINGS] = str(siblings)


def exported_siblings() -> Path | None:
    """Return the directory of the sockets of this process's siblings, if it has any."""
    directory = os.environ.get(_SIBLINGS)
    return None if directory is None else Path(directory)


def _as_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(str(part) for part in cast("tuple[object, ...]", value))
    return str(value)


def foreign_variables() -> Mapping[str, str]:
    """Return the variables of this process, which tell where other programs keep their files."""
    return dict(os.environ)


def allows_color(environment: Mapping[str, str] | None = None) -> bool:
    """Return True if a terminal may get colours (https://no-color.org)."""
    source = os.environ if environment is None else environment
    return not source.get("NO_COLOR") and source.get("TERM") != "dumb"


def terminal_columns() -> int:
    """Return the width of the terminal: COLUMNS, or that of stdout, or 80."""
    # As `shutil.get_terminal_size`, whose module takes longer to import than a command may take.
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given[:_DIGITS]) > 0:
        return int(given[:_DIGITS])
    try:
        return os.get_terminal_size(_STDOUT).columns or _COLUMNS
    except OSError:
        return _COLUMNS


_STDOUT = 1
_COLUMNS = 80
_DIGITS = 5
"""No terminal is wider, and Python refuses to read numbers of thousands of digits."""


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
    if not path.exists():
        return {}
    import tomllib

    try:
        content = tomllib.loads(path.read_text())
    except (OSError, ValueError) as exc:
        raise ConfigurationError(FILE_NAME, str(exc)) from exc
    for name in content:
        _check_known(name, shown=f"{FILE_NAME}: {name}")
        if name == "home":
            raise ConfigurationError(FILE_NAME, "home cannot be set in the file it leads to")
    return content


def _check_known(name: str, *, shown: str) -> None:
    if name in Settings.__struct_fields__:
        return
    import difflib

    near = difflib.get_close_matches(name, Settings.__struct_fields__, n=1, cutoff=0.0)
    raise ConfigurationError(shown, f"unknown setting; did you mean {_shown(near[0])}?")


def _shown(name: str) -> str:
    return PREFIX + name.upper()


def find_places() -> Places:
    """Return where programs of this user keep their files."""
    from engram.sources.places import Places

    return Places(home=Path.home(), platform=sys.platform, variables=dict(os.environ))


def runtime_directory() -> Path:
    """Return the directory for sockets of this user, or that of temporary files."""
    given = os.environ.get("XDG_RUNTIME_DIR")
    if given:
        return Path(given)
    import tempfile

    return Path(tempfile.gettempdir())


def _default_model_dir(source: Mapping[str, str]) -> Path:
    base = source.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "engram" / "models"


def _default_home(source: Mapping[str, str]) -> Path:
    return Path(default_home(source))
