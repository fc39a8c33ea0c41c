"""`engram eval`: how much of the evidence search finds, and whether that became worse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engram import limits
from engram.errors import InvalidRequestError
from engram.model.search import ProfileName
from engram.transport.cli.failures import FAILED
from engram.transport.cli.invocation import Invocation
from engram.transport.cli.options import parse, shared_options
from engram.transport.cli.visible import visible_line

if TYPE_CHECKING:
    from engram.model.search import SearchRequest
    from engram.settings import Settings
    from engram.transport.cli.verdicts import Verdict
    from engram_eval.dataset import EvaluationSet
    from engram_eval.report import Baseline, SetReport

EXAMPLES = """\b
Examples:
  engram eval my_chats.jsonl
  engram eval locomo realtalk --data ../sets --baseline baseline.json
  engram eval locomo --data ../sets --baseline baseline.json --update
  engram eval my_chats.jsonl --max-questions 50 --profile words --json
\b
Everything happens in a temporary store with the embedder of the settings;
the store of --home is not touched. docs/evaluation.md explains the format of
a set and every figure. Exits with 1 when a figure of quality is more than
one point below the baseline.
"""

Sets = Annotated[
    list[str] | None,
    typer.Argument(metavar="SET", help="Names of sets, or paths of .jsonl or .jsonl.gz files."),
]
Data = Annotated[
    Path, typer.Option(metavar="DIRECTORY", help="Where NAME.dev.jsonl.gz of a name is.")
]
Limit = Annotated[int, typer.Option(min=1, max=limits.SEARCH_RESULTS_MAX, help="Results.")]
TokenBudget = Annotated[
    int,
    typer.Option(
        min=limits.TOKEN_BUDGET_MIN, max=limits.TOKEN_BUDGET_MAX, help="Tokens of text at most."
    ),
]
MaxQuestions = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Ask only the first N of each set.")
]
BaselineFile = Annotated[
    Path | None, typer.Option("--baseline", metavar="FILE", help="Figures to compare with.")
]
Update = Annotated[
    bool, typer.Option("--update", help="Write the figures of these sets to the baseline.")
]
Output = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write the answer as JSON to a file.")
]
Profile = Annotated[ProfileName, typer.Option(help="How words, meaning and recency are weighed.")]


@shared_options
def evaluate(
    invocation: Invocation,
    sets: Sets = None,
    *,
    data: Data = Path(),
    limit: Limit = 20,
    token_budget: TokenBudget = 4000,
    profile: Profile = "default",
    max_questions: MaxQuestions = None,
    baseline: BaselineFile = None,
    update: Update = False,
    output: Output = None,
) -> None:
    """Measure how much of what was said search finds again."""
    from engram.transport.requests import Search

    _check_options(baseline, max_questions, output, update=update)
    search = {"limit": limit, "token_budget": token_budget, "profile": profile}
    request = parse(Search, query="any", **search).to_model()
    before = None if baseline is None else _read_baseline(baseline, may_be_new=update)
    chosen = _read_sets(sets or (), data, max_questions)
    settings = invocation.settings()
    reached = before if max_questions is None else None

    verdicts = _measure(invocation, settings, chosen, request, reached)

    if baseline is not None and update:
        _update_baseline(baseline, before or {}, verdicts)
    answer = {
        "embedder": str(settings.embedder),
        "search": search,
        "sets": [verdict.as_json() for verdict in verdicts],
    }
    if output is not None:
        _write(output, answer)
    invocation.show(answer, lambda: _print_end(baseline, max_questions, update=update))
    if not update and any(verdict.regressions for verdict in verdicts):
        raise SystemExit(FAILED)


def _check_options(
    baseline: Path | None, max_questions: int | None, output: Path | None, *, update: bool
) -> None:
    """Refuse before hours of work what would be refused after them."""
    if update and baseline is None:
        raise InvalidRequestError("needs --baseline FILE", field="update")
    if update and max_questions is not None:
        raise InvalidRequestError("needs all questions, not --max-questions", field="update")
    for path in (baseline, output):
        if path is not None and not path.parent.is_dir():
            raise InvalidRequestError(f"there is no directory {path.parent}", field=str(path))


def _read_baseline(path: Path, *, may_be_new: bool) -> Baseline:
    from engram_eval.report import read_baseline

    return {} if may_be_new and not path.exists() else read_baseline(path)


def _update_baseline(path: Path, before: Baseline, verdicts: Sequence[Verdict]) -> None:
    from engram_eval.report import write_baseline

    now = {verdict.report.name: verdict.report.quality for verdict in verdicts}
    write_baseline(path, {**before, **now})


def _read_sets(
    sets: Sequence[str], data: Path, max_questions: int | None
) -> Sequence[EvaluationSet]:
    from engram_eval.dataset import limit_questions
    from engram_eval.reading import find_sets, read_set

    paths = find_sets(sets, directory=data)
    chosen = [limit_questions(read_set(path), questions_max=max_questions) for path in paths]
    names = [dataset.name for dataset in chosen]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequestError(f"{name} is named twice", field="sets")
    return chosen


def _measure(
    invocation: Invocation,
    settings: Settings,
    sets: Sequence[EvaluationSet],
    request: SearchRequest,
    before: Baseline | None,
) -> Sequence[Verdict]:
    import sys
    import tempfile

    from engram.transport.cli.evaluating import measure_sets
    from engram.transport.cli.verdicts import Verdict, print_verdict

    verdicts = list[Verdict]()

    def tell(report: SetReport) -> None:
        verdicts.append(Verdict.on(report, before))
        if not invocation.as_json:
            print_verdict(verdicts[-1])
            # The next set may take an hour, and a pipe would keep this one until then.
            sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="engram-") as home:
        invocation.run(
            lambda service: measure_sets(service, sets, request=request, tell=tell),
            settings=settings.model_copy(update={"home": Path(home)}),
        )
    return verdicts


def _write(path: Path, answer: object) -> None:
    import orjson

    try:
        path.write_bytes(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
    except OSError as exc:
        raise InvalidRequestError(f"cannot be written: {exc.strerror}", field=str(path)) from exc


def _print_end(baseline: Path | None, max_questions: int | None, *, update: bool) -> None:
    from engram.transport.cli.output import notice

    if baseline is not None and update:
        notice(f"wrote the baseline {visible_line(str(baseline))}")
    elif baseline is not None and max_questions is not None:
        notice("a part of the questions is not compared with the baseline")
