"""`engram eval`: measure retrieval quality and compare it with a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from engram import limits
from engram.cli.invocation import FAILED, Invocation
from engram.cli.options import shared_options
from engram.cli.output import print_notice, visible_line
from engram.errors import InvalidRequestError
from engram.model.search import ProfileName
from engram.model.value import replace

if TYPE_CHECKING:
    from engram.cli.evaluation import Comparison
    from engram.model.search import SearchRequest
    from engram.settings import Settings
    from engram_eval.dataset import EvaluationSet
    from engram_eval.report import Baseline, SetReport


Sets = Annotated[
    list[str] | None,
    typer.Argument(metavar="SET", help="Names of sets, or paths to .jsonl or .jsonl.gz files."),
]
Data = Annotated[
    Path,
    typer.Option(
        metavar="DIRECTORY", help="Directory of the NAME.dev.jsonl.gz files of named sets."
    ),
]
Limit = Annotated[
    int, typer.Option(min=1, max=limits.SEARCH_RESULTS_MAX, help="Maximum number of messages.")
]
TokenBudget = Annotated[
    int,
    typer.Option(
        min=limits.TOKEN_BUDGET_MIN, max=limits.TOKEN_BUDGET_MAX, help="Maximum tokens of text."
    ),
]
MaxQuestions = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Ask only the first N questions of each set.")
]
BaselineFile = Annotated[
    Path | None, typer.Option("--baseline", metavar="FILE", help="Figures to compare with.")
]
Update = Annotated[
    bool, typer.Option("--update", help="Write the figures of these sets to the baseline.")
]
Output = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write the answer as JSON to this file.")
]
Profile = Annotated[ProfileName, typer.Option(help="Weighting of words, meaning and recency.")]


REPORTED_FIELDS = ("limit", "token_budget", "profile", "min_score")
"""The fields of the searches that an answer repeats."""


@shared_options
def evaluate(
    invocation: Invocation,
    sets: Sets = None,
    *,
    data: Data = Path(),
    limit: Limit = limits.SEARCH_RESULTS_MAX,
    token_budget: TokenBudget = 4000,
    profile: Profile = "default",
    max_questions: MaxQuestions = None,
    baseline: BaselineFile = None,
    update: Update = False,
    output: Output = None,
) -> None:
    """Measure retrieval quality on sets of conversations and questions.

    Examples:
      engram eval my_chats.jsonl
      engram eval locomo realtalk --data ../sets --baseline baseline.json
      engram eval locomo --data ../sets --baseline baseline.json --update
      engram eval my_chats.jsonl --max-questions 50 --profile words --json

    Runs in a temporary store with the configured embedder; the store in --home is
    not touched. docs/evaluation.md explains the format of a set and every figure.
    Exits with 1 if a quality figure is more than one point worse than the
    baseline, or a cost more than 5 % higher.
    """
    from engram.model.search import SearchRequest

    _check_options(baseline, max_questions, output, update=update)
    # Without the cut, so that the ranking is measured and not the choice of what is delivered.
    request = SearchRequest(
        query="any", limit=limit, token_budget=token_budget, profile=profile, min_score=0.0
    )
    before = None if baseline is None else _read_baseline(baseline, may_be_new=update)
    chosen = _read_sets(sets or (), data, max_questions)
    settings = invocation.settings()
    reached = before if max_questions is None else None

    comparisons = _measure(invocation, settings, chosen, request, reached)

    if baseline is not None and update:
        _update_baseline(baseline, before or {}, comparisons)
    answer = {
        "embedder": str(settings.embedder),
        "search": {name: getattr(request, name) for name in REPORTED_FIELDS},
        "sets": [comparison.as_json() for comparison in comparisons],
    }
    if output is not None:
        _write(output, answer)
    invocation.show(answer, lambda: _print_end(baseline, max_questions, update=update))
    if not update and any(comparison.regressions for comparison in comparisons):
        raise SystemExit(FAILED)


def _check_options(
    baseline: Path | None, max_questions: int | None, output: Path | None, *, update: bool
) -> None:
    """Reject invalid combinations and paths now rather than after hours of work."""
    if update and baseline is None:
        raise InvalidRequestError("requires --baseline FILE", field="update")
    if update and max_questions is not None:
        raise InvalidRequestError(
            "cannot be combined with --max-questions: a baseline needs all questions",
            field="update",
        )
    for path in (baseline, output):
        if path is not None and not path.parent.is_dir():
            raise InvalidRequestError(f"directory {path.parent} does not exist", field=str(path))


def _read_baseline(path: Path, *, may_be_new: bool) -> Baseline:
    from engram_eval.report import read_baseline

    return {} if may_be_new and not path.exists() else read_baseline(path)


def _update_baseline(path: Path, before: Baseline, comparisons: Sequence[Comparison]) -> None:
    from engram_eval.report import write_baseline

    now = {comparison.report.name: comparison.report.figures for comparison in comparisons}
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
            raise InvalidRequestError(f"{name} is given more than once", field="sets")
    return chosen


def _measure(
    invocation: Invocation,
    settings: Settings,
    sets: Sequence[EvaluationSet],
    request: SearchRequest,
    before: Baseline | None,
) -> Sequence[Comparison]:
    import sys
    import tempfile

    from engram.cli.evaluation import Comparison, measure_sets, print_comparison

    comparisons = list[Comparison]()

    def on_report(report: SetReport) -> None:
        comparisons.append(Comparison.of(report, before))
        if not invocation.as_json:
            print_comparison(comparisons[-1])
            # The next set may take an hour, and a pipe would buffer this report until then.
            sys.stdout.flush()

    with tempfile.TemporaryDirectory(prefix="engram-") as home:
        invocation.run(
            lambda service: measure_sets(service, sets, request=request, on_report=on_report),
            settings=replace(settings, home=Path(home)),
        )
    return comparisons


def _write(path: Path, answer: object) -> None:
    import orjson

    try:
        path.write_bytes(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
    except OSError as exc:
        raise InvalidRequestError(f"cannot be written: {exc.strerror}", field=str(path)) from exc


def _print_end(baseline: Path | None, max_questions: int | None, *, update: bool) -> None:
    if baseline is not None and update:
        print_notice(f"wrote the baseline {visible_line(str(baseline))}")
    elif baseline is not None and max_questions is not None:
        print_notice(
            "not compared with the baseline, because --max-questions asks only part of each set"
        )
