"""What commands declare: the options they share, and requests from what was typed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import typer

from engram.transport.cli.invocation import Invocation

if TYPE_CHECKING:
    from pydantic import BaseModel

P = ParamSpec("P")
R = TypeVar("R", bound="BaseModel")

Home = Annotated[
    Path | None, typer.Option(metavar="DIRECTORY", help="Where the store is. [env: ENGRAM_HOME]")
]
Json = Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The PostgreSQL database. [env: ENGRAM_DATABASE_URL]"),
]

_SHARED = (("home", Home, None), ("as_json", Json, False), ("debug", Debug, False))


def shared_options(command: Callable[Concatenate[Invocation, P], None]) -> Callable[..., None]:
    """Give a command `--home`, `--json` and `--debug`, and one place where its errors are told."""

    @functools.wraps(command)
    def invoke(*, home: Path | None, as_json: bool, debug: bool, **arguments: Any) -> None:
        invocation = Invocation(home=home, as_json=as_json, debug=debug)
        with invocation.reporting():
            functools.partial(command, invocation, **arguments)()

    vars(invoke)["__signature__"] = _with_shared(inspect.signature(command, eval_str=True))
    return invoke


def _with_shared(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature typer reads: the command's own options, then the shared ones."""
    _, *own = signature.parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    shared = (
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
        for name, annotation, default in _SHARED
    )
    return signature.replace(parameters=[*own, *shared])


def parse(request: type[R], **values: Any) -> R:
    """Return the request that every transport would make of `values`; None was not given.

    Raises:
        InvalidRequestError: a value is not valid.
    """
    return parse_given(
        request, {name: value for name, value in values.items() if value is not None}
    )


def parse_given(request: type[R], given: Mapping[str, Any]) -> R:
    """Return the request that every transport would make of what was given; None is a value.

    Raises:
        InvalidRequestError: a value is not valid.
    """
    from pydantic import ValidationError

    from engram.transport.requests import invalid_request

    try:
        return request.model_validate(given)
    except ValidationError as exc:
        raise invalid_request(exc) from exc
