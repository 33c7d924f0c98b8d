"""`reticent design`: from a question to a plan."""

from __future__ import annotations

import csv
import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reticent.errors import ParameterError, PlanError, ReticentError
from reticent.mechanisms import exact
from reticent.plan import Plan
from reticent_collector.cli import output
from reticent_collector.cli.options import confidence_option
from reticent_collector.cli.output import VerbCommand
from reticent_lab.cli.values import recorded_values, values_file

if TYPE_CHECKING:
    from reticent_lab.design import Figure, ValueSpread
    from reticent_lab.fleet import Recorded

KEYS = ("unit", "goal", "range", "level", "buckets", "edges", "labels", "values", "pilot")
"""What a metric can be given, as key=value."""


def _number(context: click.Context, parameter: click.Parameter, text: str | None) -> Fraction | None:
    """A number taken as it is written: 0.1 is one tenth."""
    try:
        return None if text is None else exact(text)
    except ParameterError:
        raise click.BadParameter(f"expected a number such as 0.2 or 1/3, got {text!r}.") from None


def _period(context: click.Context, parameter: click.Parameter, text: str) -> int:
    from reticent_lab.design import LENGTHS

    if text in LENGTHS:
        return LENGTHS[text]
    if text[:-1].isdecimal() and text.endswith("d"):
        return int(text[:-1])
    raise click.BadParameter(
        f"expected day, week, month (28 days) or a number of days such as 84d, got {text!r}."
    )


@click.command(cls=VerbCommand, short_help="Find a plan that answers a question.")
@click.option("--metric", "metrics", multiple=True, required=True, metavar="NAME,KIND[,KEY=VALUE]...",
              help="A metric: its name, mean, split, histogram, quantile, choice or flag, and unit=U, goal=H (the "
                   "half-width to reach: per day for a mean or a split, in its unit for a quantile, else a share), "
                   "level=Q (of a quantile, such as 90%), range=M (of a day; of a split for all labels "
                   "together), buckets=K, edges=0|E|..., labels=A|B|..., values=FILE or pilot=FILE. Give it once for "
                   "each metric.")  # fmt: skip
@click.option("--devices", type=int, required=True, metavar="N", help="Number of devices that answer.")
@click.option("--per", callback=_period, default="week", show_default=True, metavar="TIME",
              help="What each figure is for: day, week, month (28 days), or days such as 84d.")  # fmt: skip
@click.option("--constant", callback=_number, metavar="E",
              help="Promise: the loss of a device that keeps its values, for ever (remembered answers).")  # fmt: skip
@click.option("--window", callback=_number, metavar="E",
              help="Promise: the loss between any two histories in a window (sampled answers).")  # fmt: skip
@click.option("--year", callback=_number, metavar="E",
              help="Promise: the same in a year; 54, the most that a device allows by default, when no promise is "
                   "given.")  # fmt: skip
@click.option("--round", "round_name", type=click.Choice(["day", "week", "month"]),
              help="Length of a round. Chosen for means when left out; else a day.")  # fmt: skip
@click.option("--segments", type=int, default=1, show_default=True, metavar="S",
              help="Equal parts of the fleet, each as precise.")  # fmt: skip
@confidence_option
@click.option("--name", default="my-plan", show_default=True, metavar="NAME", help="Name of the plan.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write the plan there.")  # fmt: skip
@output.as_json
def design(out: Path | None, as_json: bool, metrics: tuple[str, ...], **wanted: Any) -> None:
    """
    Find the plan that reaches the goals at the least privacy loss; without goals, the narrowest within the promise.

    Chooses the length of rounds and windows, ranges, mechanisms, epsilons and how many metrics a report answers,
    within what a device allows by default. Prints a whole plan.toml: expected half-widths (at worst, clipping
    included), losses, reasons, two alternatives, and what to give up if the goals are out of reach.

    values=FILE is a file as for reticent simulate, of values per individual and day; of a table of several metrics,
    the column with the metric's name. pilot=FILE is the CSV of a
    sealed histogram, with bucket_low, bucket_high and value.

    \b
    Example:
      reticent design --metric minutes,mean,unit=minute,range=1440 --devices 50000 --year 12
      reticent design --metric start_ms,quantile,level=90%,values=starts.csv,goal=200 --devices 200000
      reticent design --metric load,mean,range=100,goal=1 --metric crashed,flag,goal=1% --devices 200000 --constant 1

    Exit code 3 when the goals are out of reach: then the plan is the nearest.
    """
    from reticent_lab import design as lab

    promises = {name: wanted.pop(name) for name in ("constant", "window", "year")}
    given = {name: limit for name, limit in promises.items() if limit is not None}
    if len(given) > 1:
        raise click.UsageError(f"Give one promise, not --{' and --'.join(given)}.")
    promise, limit = next(iter(given.items()), ("year", Fraction(54)))
    round_name = wanted.pop("round_name")
    round_days = lab.LENGTHS.get(round_name)
    figures = tuple(_figure(text, round_days) for text in metrics)
    names = [figure.name for figure in figures]
    if len({*names}) < len(names):
        raise click.UsageError("--metric: expected different names.")
    try:
        question = lab.Question(figures, promise=promise, limit=limit, round_days=round_days, **wanted)  # type: ignore[arg-type]
        answer = lab.suggest(question)
        text = lab.plan_text(answer)
        Plan.from_toml(text)
    except PlanError as error:
        raise click.UsageError(f"--name or --metric does not suit a plan: {error.problems[0]}") from None
    except ParameterError as error:
        hint = f"\n  Hint: {error.hint}" if error.hint else ""
        raise click.UsageError(f"{error.name}: expected {error.expected}, got {error.got}.{hint}") from None
    if out is not None:
        out.write_text(text, encoding="utf-8")
    if as_json:
        output.print_json(
            {
                **lab.described(answer.best),
                "promise": promise,
                "limit": limit,
                "reasons": lab.reasons(answer),
                "give_up": answer.gives_up,
                "alternatives": [
                    {"what": other.what, **lab.described(other.proposal)} for other in answer.alternatives
                ],
                "plan": text,
            }
        )
    else:
        click.echo(text, nl=False)
        if out is not None:
            click.echo(f"\n# Written: {out}\n# Check it: {lab.check_command(answer, str(out))}")
    if not answer.best.met:
        output.found_problems()


def _figure(text: str, round_days: int | None) -> Figure:
    """A metric, from the words of the command line."""
    from reticent.plan.parse import NAME
    from reticent_lab.design import Figure, ValueSpread

    name, *words = (word.strip() for word in text.split(","))
    if not re.fullmatch(NAME, name):
        raise click.UsageError(
            f"--metric: expected a name of lower-case letters, digits, - and _ that starts with a letter, got "
            f"{name!r}.\n  Hint: a column of a file with another name is to be renamed"
        )
    kind = words.pop(0) if words and "=" not in words[0] else "mean"
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in KEYS or key in given:
            raise click.UsageError(
                f"--metric {name}: expected one each of {', '.join(KEYS)} as key=value, got {word!r}."
            )
        given[key] = value
    if "values" in given and "pilot" in given:
        raise click.UsageError(f"--metric {name}: expected values or pilot, got both.")
    spread = None
    if "values" in given:
        spread = ValueSpread.recorded(_recorded(given["values"], name))
    elif "pilot" in given:
        spread = _pilot(given["pilot"], round_days)
    try:
        if kind == "quantile":
            return _quantile(name, given, spread)
        return Figure(
            name,
            kind,
            given.get("unit", ""),
            _exact(given, "goal"),
            _exact(given, "range"),
            int(given["buckets"]) if "buckets" in given else None,
            tuple(exact(edge) for edge in given.get("edges", "").split("|") if edge),
            tuple(label.strip() for label in given.get("labels", "").split("|") if label),
            spread,
        )
    except ParameterError as error:
        raise click.UsageError(
            f"--metric {error.name}: expected {error.expected}, got {error.got}."
        ) from None
    except ValueError:
        raise click.UsageError(f"--metric {name}: buckets: expected a whole number.") from None


def _recorded(file: str, name: str) -> Recorded:
    """The values in a file; of a table of several metrics, the column with this metric's name."""
    from reticent.mechanisms import OneBitMean
    from reticent.plan import Metric
    from reticent_lab.fleet import metrics_in, read_values

    path = values_file(file)
    if metrics_in(path, [name]):
        return read_values(path, column=(name, Metric(name, OneBitMean(1, 1))))
    return recorded_values(path)


def _quantile(name: str, given: dict[str, str], spread: ValueSpread | None) -> Figure:
    from reticent_lab.design import QuantileGoal

    if other := sorted(given.keys() - {"unit", "goal", "level", "values", "pilot"}):
        raise ParameterError(f"{name}: {other[0]}", "not to be given for a quantile", given[other[0]])
    level, goal = _exact(given, "level"), _exact(given, "goal")
    if level is None or goal is None or spread is None:
        missing = "level" if level is None else "goal" if goal is None else "values"
        raise ParameterError(f"{name}: {missing}", "a level, a goal, and a file of values or a pilot", "none")
    return QuantileGoal.figure(name, given.get("unit", ""), level, goal, spread)


def _exact(given: dict[str, str], key: str) -> Fraction | None:
    text = given.get(key)
    if text is None:
        return None
    return exact(text[:-1]) / 100 if text.endswith("%") else exact(text)


def _pilot(path: str, round_days: int | None) -> ValueSpread:
    """The newest round of a sealed histogram in a CSV file."""
    from reticent_lab.design import ValueSpread

    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row.get("segment", "") in ("", "{}")]
        newest = max(row.get("round") or row.get("start_time") or "" for row in rows)
        rows = [row for row in rows if (row.get("round") or row.get("start_time") or "") == newest]
        rows.sort(key=lambda row: float(row["bucket_low"]))
        edges = [float(row["bucket_low"]) for row in rows] + [float(rows[-1]["bucket_high"])]
        return ValueSpread.sealed(edges, [float(row["value"]) for row in rows], round_days or 1)
    except (OSError, KeyError, ValueError, TypeError):
        raise ReticentError(
            f"{path}: expected a CSV file of one histogram, with the columns bucket_low, bucket_high and value.\n"
            "  Hint: `reticent estimate ADDRESS --plan PLAN --metric METRIC --csv` writes it"
        ) from None
