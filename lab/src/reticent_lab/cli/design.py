"""`reticent design`: from a goal to the section of a plan."""

from __future__ import annotations

import re
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from reticent.errors import ParameterError, PlanError
from reticent.mechanisms import exact
from reticent.plan import Plan
from reticent.plan.card import PrivacyCard, duration
from reticent.privacy import CLAIMS, printed
from reticent_collector.cli import output
from reticent_collector.cli.output import VerbCommand, counted, figure, table
from reticent_lab.cli.values import recorded_values

if TYPE_CHECKING:
    from reticent_lab.design import Choice, Design, Goal, Range, WayOut
    from reticent_lab.fleet import Recorded

OPTIONS = {
    "max_value": "--range",
    "half_width": "--half-width",
    "change_time": "--change-time",
    "round_seconds": "--round",
    "asked": "--per-report",
    "period": "--per",
}
"""The option of a part of a goal, where it is not --part."""

WORDS = {
    "devices": "number of devices",
    "epsilon": "epsilon",
    "lifetime": "same-pattern loss",
    "year": "loss in a year",
    "half_width": "half-width",
    "flip": "flip",
    "change_time": "loss of a moved change",
    "window": "window",
}
"""The parts of a goal in words."""

LOSSES = {
    "round": "one round",
    "constant": "constant",
    "lifetime": "pattern",
    "change_per_round": "change",
    "window": "one window",
    "any_history": "any",
}
"""Short heads of `PrivacyCard.columns`."""

_UNITS = {"m": 60, "h": 3600, "d": 86_400}


def _number(context: click.Context, parameter: click.Parameter, text: str | None) -> Fraction | None:
    """A number taken as it is written: 0.1 is one tenth."""
    try:
        return None if text is None else exact(text)
    except ParameterError:
        raise click.BadParameter(f"expected a number such as 0.2 or 1/3, got {text!r}.") from None


def _seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    match = re.fullmatch(r"([1-9][0-9]{0,6})([mhd])", text or "")
    if text is not None and match is None:
        raise click.BadParameter(f"expected a duration such as 30m, 6h or 7d, got {text!r}.")
    return int(match[1]) * _UNITS[match[2]] if match else None


def _listed(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",")) if text else ()


@click.command(cls=VerbCommand, short_help="Find range, mechanism, epsilon and kind of answers for a goal.")
@click.option("--range", "max_value", callback=_number, metavar="M",
              help="Top of the counter's range; it begins at 0. Chosen when left out, with --values.")  # fmt: skip
@click.option("--values", metavar="FILE",
              help="CSV or Parquet of values, one per individual and round, as for reticent simulate: weigh clipping "
                   "against noise, and take edges of buckets from them. - is standard input.")  # fmt: skip
@click.option("--devices", type=int, metavar="N",
              help="Number of devices that answer; as many as individuals in --values.")  # fmt: skip
@click.option("--half-width", callback=_number, metavar="H",
              help="Half-width to reach: in units for a mean, a share for a histogram.")  # fmt: skip
@click.option("--per", type=click.Choice(["round", "day", "week", "window"]),
              help="What the interval is for: one round, or all rounds of a day, a week or a window together. A round, "
                   "or a window with any-history, when left out.")  # fmt: skip
@click.option("--promise", type=click.Choice(["constant", "any-history"]), default="constant", show_default=True,
              help="Whom the promise covers: devices that keep their value (remembered answers), or any two "
                   "histories, whatever a device does (sampled answers).")  # fmt: skip
@click.option("--epsilon", callback=_number, metavar="E",
              help="Limit: loss of a constant device, and half of the same-pattern loss; with any-history, loss of a "
                   "window. 4 when no limit is given.")  # fmt: skip
@click.option("--lifetime", callback=_number, metavar="L",
              help="Limit instead: loss between devices of the same pattern.")  # fmt: skip
@click.option("--year", callback=_number, metavar="Y",
              help="Limit instead, with any-history: loss between any two histories in a year.")  # fmt: skip
@click.option("--window", callback=_seconds, metavar="TIME",
              help="With any-history: length of a window, one report per device; chosen when left out.")  # fmt: skip
@click.option("--metrics", type=int, default=1, show_default=True, metavar="T",
              help="Number of such metrics in the plan; limits are for all of them together.")  # fmt: skip
@click.option("--per-report", "asked", type=int, metavar="K",
              help="With any-history, metrics that a report answers; chosen when left out.")  # fmt: skip
@click.option("--round", "round_seconds", callback=_seconds, default="1d", show_default=True, metavar="TIME",
              help="Length of a round.")  # fmt: skip
@click.option("--flip", callback=_number, metavar="P",
              help="Flip probability of each answer bit; 0.2 when left out.")  # fmt: skip
@click.option("--change-time", callback=_number, metavar="X",
              help="Limit instead of --flip: loss of a change per round by which it is moved; 1.387 is a flip "
                   "of 0.2.")  # fmt: skip
@click.option("--kind", type=click.Choice(["mean", "histogram", "choice", "flag"]),
              help="What to estimate; a mean, unless buckets, edges or labels are given.")  # fmt: skip
@click.option("--buckets", type=int, metavar="K",
              help="Number of buckets of the histogram: even ones, or with --values and no --range, with about "
                   "as many values in each.")  # fmt: skip
@click.option(
    "--edges", callback=_listed, metavar="0,E,...", help="Edges of the buckets, instead of --buckets."
)
@click.option("--labels", callback=_listed, metavar="A,B,...", help="Labels of the choice.")
@click.option(
    "--expected-mean",
    callback=_number,
    metavar="X",
    help="Half-width at this mean; at the worst one when left out.",
)
@click.option(
    "--expected-share",
    callback=_number,
    metavar="P",
    help="Half-width at this share; at the worst one when left out.",
)
@click.option("--segments", type=int, default=1, show_default=True, metavar="S",
              help="Equal parts of the fleet, each with that half-width.")  # fmt: skip
@click.option("--confidence", type=float, default=0.95, show_default=True, metavar="C",
              help="Confidence level of the intervals.")  # fmt: skip
@click.option("--name", default="counter", show_default=True, metavar="NAME", help="Name of the metric.")
@click.option("--unit", default="", metavar="UNIT", help="Unit of the counter, such as second.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Write the plan and a picture of the trade-off there.")  # fmt: skip
@output.as_json
def design(out: Path | None, as_json: bool, **wanted: Any) -> None:
    """
    Choose range, mechanism, epsilon and kind of answers: the least loss that reaches a half-width.

    Without --half-width, the narrowest interval within the limit. Epsilon has three significant digits and
    never exceeds it. Prints the design, remembered and sampled answers side by side, similar designs, and the
    section for plan.toml, which reticent plan check reads.

    \b
    Example:
      reticent design --range 21600 --devices 100000 --half-width 250 --epsilon 1 --unit second
      reticent design --range 21600 --devices 100000 --promise any-history --year 54 --round 6h
      reticent design --values seconds.csv --unit second --devices 100000 --epsilon 1 --per week

    Exit code 3 when the goal is not achievable: then the nearest design is shown, and what to give up.
    """
    from reticent_collector import plots
    from reticent_lab import design as lab

    given = wanted["max_value"]
    recorded = _read(wanted)
    goal = _goal(wanted)
    ranges = lab.weigh(goal, recorded.table) if recorded is not None and goal.kind == "mean" else ()
    tried = tuple(one for one in ranges if given in (None, one.max_value))
    choice = lab.best(tried).choice if ranges else lab.choose(goal)
    output.make_folder(out)
    text = lab.plan_text(choice)
    _check_plan(text, choice.goal.name)
    outs = lab.ways_out(choice)
    files: list[Path] = []
    if out is not None:
        file = out / f"{choice.goal.name}-design.toml"
        file.write_text(text, encoding="utf-8")
        files = [file, *plots.save(lab.draw(choice, ranges), out, file.stem)]
    if as_json:
        answer = {
            "met": choice.met,
            "goal": {**asdict(choice.goal), "kind": choice.goal.kind},
            "chosen": _described(choice.chosen),
            "ranges": [
                {
                    **{name: getattr(one, name) for name in ("max_value", "cut", "bias", "noise", "rmse")},
                    "half_width": one.choice.chosen.half_width,
                    "epsilon": one.choice.chosen.epsilon,
                    "met": one.choice.met,
                }
                for one in ranges
            ],
            "shares": _shares(choice, recorded),
            "ways": _ways(choice),
            "reason": lab.reason(choice),
            "give_up": [asdict(way) for way in outs],
            "neighbours": [
                {"label": each.label, **_described(each.design)} for each in lab.neighbours(choice)
            ],
            "section": lab.section(choice),
            "plan": text,
            "files": files,
        }
        output.print_json(answer)
    else:
        screen = output.console()
        _print_choice(screen, choice, outs)
        if recorded is not None:
            _print_values(screen, choice, recorded, ranges)
        _print_alternatives(screen, choice)
        _print_section(screen, choice, files)
    if not choice.met:
        output.found_problems()


def _check_plan(text: str, name: str) -> None:
    """Raise `UsageError` unless this is a plan: all numbers suit one by now; a name, a unit or a label may not."""
    try:
        problem = "" if Plan.from_toml(text).name == name else "expected a plain name."
    except PlanError as error:
        problem = str(error.problems[0])
    if problem:
        raise click.UsageError(f"--name, --unit or --labels does not suit a plan: {problem}")


def _read(wanted: dict[str, Any]) -> Recorded | None:
    """The recorded values; range, edges and devices that are not given are taken from them."""
    from reticent_lab.design import edges_of
    from reticent_lab.design.ranges import round_numbers

    file = wanted.pop("values")
    kind = wanted["kind"]
    fixed = bool(wanted["labels"] or wanted["edges"]) or kind in ("choice", "flag")
    if file is None:
        _refuse(
            {
                "--devices: expected a number of devices, or --values FILE, got neither.": wanted["devices"]
                is None,
                "--range: expected the top of the counter's range, or --values FILE to choose it, got neither.": (
                    wanted["max_value"] is None and not fixed
                ),
            }
        )
        return None
    _refuse(
        {
            "--values: expected a mean or a histogram; a choice or a flag has no range.": (
                kind in ("choice", "flag") or wanted["labels"]
            ),
            "--expected-mean: expected none with --values, which have a mean.": wanted["expected_mean"]
            is not None,
        }
    )
    recorded = recorded_values(file)
    wanted["devices"] = wanted["devices"] or len(recorded.individuals)
    if wanted["max_value"] is None and not fixed:
        if wanted["buckets"]:
            wanted["edges"] = edges_of(recorded.table, wanted.pop("buckets"), wanted["unit"])
            wanted["buckets"] = None
        else:
            wanted["max_value"] = round_numbers(recorded.max_value, wanted["unit"])[-1]
    return recorded


def _goal(wanted: dict[str, Any]) -> Goal:
    from reticent_lab.design import Goal

    kind, per, mean, share = (wanted.pop(key) for key in ("kind", "per", "expected_mean", "expected_share"))
    bucketed = "choice" if wanted["labels"] else "histogram"
    sorted_into = [key for key in ("buckets", "edges", "labels") if wanted[key]]
    both = " or --".join(sorted_into)
    kind = kind or (bucketed if sorted_into else "mean")
    into = kind if kind in ("histogram", "choice") else None
    length, window = wanted["round_seconds"], wanted["window"]
    seconds = {"day": 86_400, "week": 7 * 86_400, "round": length}.get(per, 0)
    _refuse(
        {
            f"Give either --{both}, not both.": len(sorted_into) > 1,
            "--kind histogram needs --buckets K or --edges 0,E,...; --kind choice needs --labels A,B,...; a mean and a "
            "flag have neither.": into != (bucketed if sorted_into else None),
            f"--range: expected none with {'--edges' if wanted['edges'] else 'a ' + kind}.": (
                wanted["max_value"] is not None and (wanted["edges"] or wanted["labels"] or kind == "flag")
            ),
            f"--window: expected whole rounds of {duration(length)}, got {duration(window or 0)}.": (
                window is not None and window % length
            ),
            f"--per {per}: expected rounds that divide it, got {duration(length)}.": seconds % length,
            "--per window: expected --promise any-history, got constant.": (
                per == "window" and wanted["promise"] == "constant"
            ),
            "--expected-share is for a histogram or a choice; a mean has --expected-mean.": (
                into is None and share is not None
            ),
            "--expected-mean is for a mean; a histogram has --expected-share.": into and mean is not None,
        }
    )
    wanted["window"] = None if window is None else window // length
    if seconds:
        wanted["period"] = seconds // length
    expected = share if mean is None else mean
    try:
        return Goal(**wanted, flag=kind == "flag", expected=expected)
    except ParameterError as error:
        name = f"--expected-{'mean' if share is None else 'share'}"
        option = name if error.name == "expected" else OPTIONS.get(error.name, f"--{error.name}")
        parts = r"\b(half_width|change_time|epsilon|lifetime|year|promise)\b"
        hint = re.sub(parts, lambda part: f"--{part[0].replace('_', '-')}", error.hint)
        hint = f"\n  Hint: {hint}" if hint else ""
        raise click.UsageError(f"{option}: expected {error.expected}, got {error.got}.{hint}") from None


def _refuse(problems: dict[str, object]) -> None:
    """Raise `UsageError` for the first problem that there is."""
    for message, there in problems.items():
        if there:
            raise click.UsageError(message)


def _shares(choice: Choice, recorded: Recorded | None) -> list[dict[str, float]]:
    """The share of the recorded values in each bucket."""
    import numpy as np

    if recorded is None or choice.goal.kind != "histogram":
        return []
    edges = [float(edge) for edge in choice.chosen.metric.mechanism.points]
    counts, _ = np.histogram(np.minimum(recorded.table, edges[-1]), edges)
    return [
        {"from": low, "to": high, "share": float(count / counts.sum())}
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]


def _described(design: Design) -> dict[str, object]:
    return {
        "mechanism": design.metric.mechanism.title,
        "epsilon": design.epsilon,
        "flip": design.flip,
        "bits": design.metric.bits,
        "devices": design.devices,
        "half_width": design.half_width,
        "worst_half_width": design.worst_half_width,
        **_answering(design.plan, design.card),
    }


def _answering(plan: Plan, card: PrivacyCard) -> dict[str, object]:
    """Answers and losses, with the keys of `reticent plan check`."""
    if not plan.answers.sampled:
        return {"answers": "remembered", "loss": asdict(card.loss)}
    window = duration(plan.answers.window * plan.round_seconds)
    return {"answers": "sampled", "window": window, "loss": {**asdict(card.loss), "window": card.window}}


def _ways(choice: Choice) -> dict[str, object]:
    from reticent_lab.design import both_ways

    return {
        "sampled" if way.plan.answers.sampled else "remembered": {
            "epsilon": float(way.plan.metrics[0].mechanism.epsilon),
            "flip": float(way.plan.metrics[0].flip.probability),
            **_answering(way.plan, way.card),
            "half_width": dict(way.half_widths),
        }
        for way in both_ways(choice)
    }


def _print_choice(screen: Console, choice: Choice, outs: tuple[WayOut, ...]) -> None:
    goal = choice.goal
    chosen = choice.chosen
    parts = f" in {goal.segments} segments" if goal.segments > 1 else ""
    alike = f", one of {goal.metrics} such metrics" if goal.metrics > 1 else ""
    screen.print(
        f"[bold]{escape(goal.name)}[/bold]: {_asked(goal)}, from {goal.devices:,} devices{parts}{alike}"
    )
    answers = f"and flip {float(chosen.flip):g}"
    if goal.sampled:
        answers = f"in each window of {duration(goal.answers.window * goal.round_seconds)}"
        if goal.metrics > 1:
            answers += f", {goal.answers.metrics} of {goal.metrics} metrics per report"
    epsilon = printed(float(chosen.epsilon))
    screen.print(f"{_verdict(choice)}: {chosen.metric.mechanism.title} with epsilon {epsilon} {answers}.")
    _print_figures(screen, goal, chosen)
    if outs:
        screen.print("\nTo reach it, give up one of these and keep the others:")
    for way in outs:
        screen.print(f"  {_way_out(goal, way)}")


def _asked(goal: Goal) -> str:
    """What devices are asked, in words."""
    if goal.flag:
        return "yes or no"
    if goal.labels:
        return f"a choice of {escape(', '.join(goal.labels))}, or none"
    what = "the mean" if goal.buckets is None else f"{goal.buckets} buckets"
    return f"{what} of 0 to {_amount(goal, goal.max_value, mean=True)}"


def _verdict(choice: Choice) -> str:
    """Whether the goal is achievable, in words."""
    goal = choice.goal
    if goal.half_width is None:
        return "[green]The narrowest interval within the limit[/green]"
    if choice.met:
        return f"[green]±{_amount(goal, goal.half_width)} is achievable[/green]"
    usual = " (the limit when none is given)" if goal.epsilon is None else ""
    limit = f"epsilon {figure(float(goal.limit / goal.answers_of_a_device))}{usual}"
    if goal.lifetime:
        limit = f"a same-pattern loss of {figure(float(goal.lifetime))}"
    elif goal.year:
        limit = f"a loss of {figure(float(goal.year))}"
    if goal.year:
        limit += " in a year"
    return f"[red]±{_amount(goal, goal.half_width)} is not achievable[/red] within {limit}; the nearest"


def _print_figures(screen: Console, goal: Goal, chosen: Design) -> None:
    """The half-width and the losses of a design."""
    share = f" ({chosen.half_width / float(goal.top):.2%} of the range)" if goal.buckets is None else ""
    at = ", at worst"
    if goal.expected is not None:
        kind = "a mean" if goal.buckets is None else "a share"
        at = f", at {kind} of {_amount(goal, goal.expected)}; ±{_amount(goal, chosen.worst_half_width)} at worst"
    of = "" if goal.period_name == "a round" else f" of {goal.period_name}"
    screen.print(
        f"  {goal.confidence * 100:g} % half-width   ±{_amount(goal, chosen.half_width)}{of}{share}{at}"
    )
    if goal.bias:
        screen.print(f"{'':18}  {_amount(goal, goal.bias)} of it is clipping: values above the range")
    losses = zip(chosen.card.figures(chosen.card.loss), chosen.card.columns.values(), strict=True)
    figures = [f"{loss} {title}" for loss, title in losses]
    more = "," if len(figures) > 3 else ""
    screen.print(f"  privacy loss      {', '.join(figures[:3])}{more}")
    if more:
        screen.print(f"{'':18}  {', '.join(figures[3:])}")


def _way_out(goal: Goal, way: WayOut) -> str:
    """What to give up, in words."""
    if way.instead is None:
        return f"[dim]no {WORDS[way.part]} alone is enough[/dim]"
    instead = _part(goal, way.part, way.instead)
    wanted = _part(goal, way.part, way.wanted)
    unit = " devices" if way.part == "devices" else ""
    name = "" if way.part in ("devices", "half_width") else f"{WORDS[way.part]} "
    return f"{name}{instead}{unit} instead of {wanted}"


def _part(goal: Goal, part: str, number: Fraction | int) -> str:
    if part == "half_width":
        return f"±{_amount(goal, number)}"
    if part == "window":
        return duration(int(number) * goal.round_seconds)
    return f"{number:,}" if isinstance(number, int) else f"{float(number):g}"


def _amount(goal: Goal, number: Fraction | float, mean: bool = False) -> str:
    """A value in its unit, or a share."""
    unit = f" {escape(goal.unit)}" if goal.unit and (mean or goal.buckets is None) else ""
    return f"{figure(float(number))}{unit}"


def _print_values(screen: Console, choice: Choice, recorded: Recorded, ranges: tuple[Range, ...]) -> None:
    """The cost of each range for the recorded values, or their share in each bucket."""
    goal = choice.goal
    size = f"{counted(len(recorded.individuals), 'individual')} in {counted(len(recorded.days), 'round')}"
    if not ranges:
        screen.print(f"\nBuckets, for the values of {size}")
        shares = [
            (f"{bucket['from']:,.6g}", f"{bucket['to']:,.6g}", f"{bucket['share']:.1%}")
            for bucket in _shares(choice, recorded)
        ]
        screen.print(table("from", "to", "values", rows=shares))
        return
    heads = ("range", "values above", "clipping", "noise", "error", "epsilon", "half-width")
    rows = [
        (
            f"{figure(float(tried.max_value))}{' chosen' * (tried.max_value == goal.max_value)}",
            f"{tried.cut:.2%}",
            *map(figure, (tried.bias, tried.noise, tried.rmse)),
            printed(float(tried.choice.chosen.epsilon)),
            f"±{figure(tried.choice.chosen.half_width)}",
        )
        for tried in ranges
    ]
    screen.print(table(*heads, rows=rows, title=f"\nRanges, for the values of {size}"))
    screen.print(
        f"[dim]Error: √(clipping² + noise²), of {goal.period_name}, against the mean of all values. The half-width "
        "includes the clipping; the intervals of estimates do not.[/dim]"
    )


def _print_alternatives(screen: Console, choice: Choice) -> None:
    """Remembered and sampled answers side by side, why one of them was chosen, and similar designs."""
    from reticent_lab.design import MOST_BUCKETS, both_ways, neighbours, reason, spent

    names = ("constant", "lifetime", "any_history")
    heads = [CLAIMS[name].title for name in names[:2]] + ["any two\nhistories, 1 year"]
    title = f"\nRemembered and sampled answers, at epsilon {printed(float(spent(choice)))}"
    rows = table(
        "", *heads, "± one round", "± one week", "± one year",
        title=title + " for all metrics" * (choice.goal.metrics > 1),
    )  # fmt: skip
    for way in both_ways(choice):
        label = f"remembered, flip {float(way.plan.metrics[0].flip.probability):g}"
        if way.plan.answers.sampled:
            label = f"sampled, once in {duration(way.plan.answers.window * way.plan.round_seconds)}"
            label += f"\n{way.plan.asked} of {len(way.plan.metrics)} metrics" * (len(way.plan.metrics) > 1)
        losses = [printed(getattr(way.card, name)) for name in names]
        rows.add_row(label, *losses, *map(figure, way.half_widths.values()))
    screen.print(rows)
    screen.print(escape(reason(choice)))
    sampled = choice.goal.sampled
    rows = table(
        "", "mechanism", "epsilon", "window" if sampled else "flip", "bits", "half-width",
        *(LOSSES[name] for name in choice.chosen.card.columns), title="\nSimilar designs",
    )  # fmt: skip
    for neighbour in neighbours(choice):
        design = neighbour.design
        plan = neighbour.design.plan
        rows.add_row(
            neighbour.label,
            design.candidate.mechanism,
            printed(float(design.epsilon)),
            duration(plan.answers.window * plan.round_seconds) if sampled else f"{float(design.flip):g}",
            str(design.metric.bits),
            f"±{figure(design.half_width)}",
            *design.card.figures(design.card.loss),
        )
    screen.print(rows)
    if choice.goal.buckets is not None:
        equal = "loss of a window" if sampled else "same-pattern loss"
        screen.print(f"[dim]Other mechanisms are shown at an equal {equal}.[/dim]")
    if choice.goal.buckets == MOST_BUCKETS:
        screen.print(
            "[dim]With 255 buckets or fewer, hadamard-bit is possible, which needs fewer devices.[/dim]"
        )


def _print_section(screen: Console, choice: Choice, files: list[Path]) -> None:
    from reticent_lab.design import check_command, section

    screen.print("\n[bold]For plan.toml[/bold]")
    screen.print(escape(section(choice)))
    if choice.goal.metrics > 1:
        screen.print(f"[dim]And {choice.goal.metrics - 1} more like it.[/dim]")
    for file in files:
        click.echo(f"Written: {file}")
    if files:
        click.echo(f"Check it: {check_command(choice, str(files[0]))}")
    else:
        screen.print("[dim]--out DIR writes it as a plan, with a picture of the trade-off.[/dim]")
    screen.print(
        "[dim]What each loss compares, and what is not covered: docs/explanation/not-protected.md[/dim]"
    )
