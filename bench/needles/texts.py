"""Generators of tool output and code: endless blocks of lines, as programs write them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

from bench.needles.names import (
    ADJECTIVES,
    NOUNS,
    VERBS,
    amount,
    camel,
    hexadecimal,
    host,
    moment,
    moments,
    number,
    pascal,
    path,
    phrase,
    pick,
    snake,
)

LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "INFO", "WARN")


def log_lines(chance: Random, service: str) -> Iterator[str]:
    """Yield lines of a server's log."""
    for at in moments(chance):
        fields = (
            f"{pick(chance, NOUNS)}={pick(chance, (snake(chance), str(number(chance))))}"
            for _ in range(chance.randrange(1, 4))
        )
        source = f"{service}.{pick(chance, NOUNS)}"
        level = pick(chance, LEVELS)
        yield f"{at} {level:5} {source}: {phrase(chance)} {' '.join(fields)}"


def access_lines(chance: Random, service: str) -> Iterator[str]:
    """Yield lines of a proxy's access log."""
    for at in moments(chance):
        address = ".".join(str(chance.randrange(1, 255)) for _ in range(4))
        target = f"/{service}/{pick(chance, NOUNS)}s/{hexadecimal(chance, 8)}"
        status, size = pick(chance, (200, 200, 200, 204, 304, 404)), chance.randrange(90, 90_000)
        method = pick(chance, ("GET", "GET", "POST", "PUT", "DELETE"))
        yield f'{address} - [{at}] "{method} {target} HTTP/1.1" {status} {size}'


def stack_traces(chance: Random, service: str) -> Iterator[str]:
    """Yield stack traces of a Java program, one a block."""
    while True:
        package = f"net.example.{service}.{pick(chance, NOUNS)}"
        kind = pick(chance, ("IllegalState", "Timeout", "NoSuchElement", "IO", "Execution"))
        frames = (
            f"    at {package}.{pascal(chance)}.{camel(chance)}({pascal(chance)}.java:{chance.randrange(20, 900)})"
            for _ in range(chance.randrange(3, 8))
        )
        head = f"{moment(chance)} java.{kind}Exception: {phrase(chance)}"
        yield "\n".join([head, *frames])


def json_objects(chance: Random, service: str) -> Iterator[str]:
    """Yield objects of a list in JSON, as an interface answers them."""
    while True:
        item = {
            "id": f"{pick(chance, NOUNS)[:3]}_{hexadecimal(chance, 10)}",
            "service": service,
            "name": snake(chance),
            "state": pick(chance, ADJECTIVES),
            "size": chance.randrange(10**6),
            pick(chance, NOUNS): {pick(chance, NOUNS): phrase(chance), "at": moment(chance)},
        }
        yield "  " + json.dumps(item) + ","


def diff_hunks(chance: Random, service: str) -> Iterator[str]:
    """Yield hunks of a unified diff."""
    while True:
        at, name = chance.randrange(1, 900), pick(chance, NOUNS)
        lines = [
            f"diff --git a/{service}/{name}.c b/{service}/{name}.c",
            f"@@ -{at},4 +{at},5 @@ static int {snake(chance)}(struct {name} *{name})",
            f"     if ({name}->{pick(chance, NOUNS)} > {number(chance)})",
            f"-        return {snake(chance)}({name});",
            f"+        return {snake(chance)}({name}, {number(chance)});",
            f"     /* {phrase(chance)} */",
        ]
        yield "\n".join(lines)


def python_functions(chance: Random, service: str) -> Iterator[str]:
    """Yield functions of a Python module."""
    while True:
        name, argument, kept = pick(chance, NOUNS), pick(chance, NOUNS), pick(chance, NOUNS)
        lines = [
            f"def {pick(chance, VERBS)}_{name}_{argument}(self, {argument}, *, limit={number(chance)}):",
            f'    """{phrase(chance).capitalize()} of {service}."""',
            f"    {kept} = [each for each in {argument} if each.{pick(chance, NOUNS)} != limit]",
            f"    if not {kept}:",
            f"        return {snake(chance)}({argument})",
            f"    return self._{camel(chance)}({kept})",
            "",
        ]
        yield "\n".join(lines)


def typescript_functions(chance: Random, service: str) -> Iterator[str]:
    """Yield functions of a TypeScript module."""
    while True:
        name, kind = pick(chance, NOUNS), pascal(chance)
        lines = [
            f"export async function {camel(chance)}({name}: {kind}, depth = {number(chance)}) {{",
            f"  const {pick(chance, NOUNS)}s = await {service}.{camel(chance)}({name}.{pick(chance, NOUNS)});",
            f"  if ({name}.{pick(chance, NOUNS)} === undefined) throw new {pascal(chance)}(depth);",
            f"  return {{ ...{name}, {pick(chance, NOUNS)}: '{phrase(chance)}' }};",
            "}",
            "",
        ]
        yield "\n".join(lines)


def go_functions(chance: Random, service: str) -> Iterator[str]:
    """Yield functions of a Go package."""
    while True:
        name, kind = pick(chance, NOUNS), pascal(chance)
        lines = [
            f"// {kind} does {phrase(chance)} for {service}.",
            f"func ({name[0]} *{kind}) {pascal(chance)}(ctx context.Context, {name} string) error {{",
            f"\tif err := {name[0]}.{camel(chance)}(ctx, {name}); err != nil {{",
            f'\t\treturn fmt.Errorf("{phrase(chance)}: %w", err)',
            "\t}",
            f"\treturn {name[0]}.{camel(chance)}(ctx, {number(chance)})",
            "}",
            "",
        ]
        yield "\n".join(lines)


def build_lines(chance: Random, service: str) -> Iterator[str]:
    """Yield the output of a build and its tests."""
    while True:
        unit = f"{pick(chance, NOUNS)}/{pick(chance, NOUNS)}"
        lines = (
            f"[{chance.randrange(1, 999)}/1204] Compiling {service}/{unit}.o",
            f"   Compiling {pick(chance, NOUNS)}-{pick(chance, NOUNS)} v0.{chance.randrange(40)}.{chance.randrange(9)}",
            f"tests/{unit}.py::test_{camel(chance)} PASSED [{chance.randrange(100):3}%]",
            f"warning: unused variable `{snake(chance)}` in {unit}.rs:{chance.randrange(900)}",
            f"npm notice {pick(chance, NOUNS)}-{pick(chance, NOUNS)} {phrase(chance)}",
            f"Step {chance.randrange(1, 40)}: copy {path(chance)} to {host(chance)} ({amount(chance)})",
        )
        yield pick(chance, lines)
