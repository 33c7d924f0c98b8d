"""`reticent design`: from what is wanted to the section of a plan."""

from __future__ import annotations

import re
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from reticent.cli.output import as_json, console, figure, found_problems, make_folder, print_json, table
from reticent.errors import ParameterError, PlanError
from reticent.mechanisms import exact
from reticent.plan import Plan, PrivacyCard
from reticent.plan.card import duration
from reticent.privacy import CLAIMS, printed

if TYPE_CHECKING:
    from reticent.lab.design import Choice, Design, Goal, Neighbour, WayOut

OPTIONS = {
    "max_value": "--range",
    "half_width": "--half-width",
    "change_time": "--change-time",
    "round_seconds": "--round",
}
"""What a part of a goal is called on the command line, where it is not just --part."""

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
"""The parts of a goal, for people."""

LOSSES = {
    "round": "one round",
    "constant": "constant",
    "lifetime": "pattern",
    "change_per_round": "change",
    "window": "one window",
    "any_history": "any",
}
"""Short heads for the columns of `PrivacyCard.columns`."""

_UNITS = {"m": 60, "h": 3600, "d": 86_400}


def _number(context: click.Context, parameter: click.Parameter, text: str | None) -> Fraction | None:
    """A number taken as it is written: 0.1 is one tenth."""
    try:
        return None if text is None else exact(text)
    except ParameterError:
        raise click.BadParameter(f"expected a number such as 0.2 or 1/3, got {text!r}.") from None


def _seconds(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """A duration as a plan writes it."""
    match = re.fullmatch(r"([1-9][0-9]{0,6})([mhd])", text or "")
    if text is not None and match is None:
        raise click.BadParameter(f"expected a duration such as 30m, 6h or 7d, got {text!r}.")
    return int(match[1]) * _UNITS[match[2]] if match else None


@click.command(short_help="Find mechanism, epsilon and way of answering for a goal.")
@click.option("--range", "max_value", callback=_number, required=True, metavar="M",
              help="Top of the counter's range; it begins at 0.")  # fmt: skip
@click.option("--devices", type=int, required=True, metavar="N", help="How many answer.")
@click.option("--half-width", callback=_number, metavar="H",
              help="Wanted of the interval of a round (of a window, with any-history): in units for a mean, a "
                   "share for a histogram.")  # fmt: skip
@click.option("--promise", type=click.Choice(["constant", "any-history"]), default="constant", show_default=True,
              help="Whom the promise covers: devices that keep their value (remembered answers), or any two "
                   "histories, whatever a device does (sampled answers).")  # fmt: skip
@click.option("--epsilon", callback=_number, metavar="E",
              help="Most that a constant device may lose, and half of the same-pattern loss; with any-history, "
                   "most that a window may lose. 4 if there is no limit.")  # fmt: skip
@click.option("--lifetime", callback=_number, metavar="L",
              help="Most that may be lost between devices of the same pattern, instead.")  # fmt: skip
@click.option("--year", callback=_number, metavar="Y",
              help="Most that any two histories may lose in a year, instead, with any-history.")  # fmt: skip
@click.option("--window", callback=_seconds, metavar="TIME",
              help="With any-history, one report per device in so long; chosen when left out.")  # fmt: skip
@click.option("--round", "round_seconds", callback=_seconds, default="1d", show_default=True, metavar="TIME",
              help="Length of a round.")  # fmt: skip
@click.option("--flip", callback=_number, metavar="P",
              help="Flip probability of each answer bit; 0.2 when left out.")  # fmt: skip
@click.option("--change-time", callback=_number, metavar="X",
              help="Most that a change may lose per round by which it is moved, instead; 1.387 is a flip "
                   "of 0.2.")  # fmt: skip
@click.option("--kind", type=click.Choice(["mean", "histogram"]), default="mean", show_default=True,
              help="What is wanted of the counter.")  # fmt: skip
@click.option("--buckets", type=int, metavar="K", help="Of the histogram.")
@click.option(
    "--expected-mean", callback=_number, metavar="X", help="Be precise there; else at the worst mean."
)
@click.option(
    "--expected-share", callback=_number, metavar="P", help="Be precise there; else at the worst share."
)
@click.option("--segments", type=int, default=1, show_default=True, metavar="S",
              help="Equal parts of the fleet, each to be that precise.")  # fmt: skip
@click.option("--confidence", type=float, default=0.95, show_default=True, metavar="C",
              help="Of the intervals.")  # fmt: skip
@click.option("--name", default="counter", show_default=True, metavar="NAME", help="Of the metric.")
@click.option("--unit", default="", metavar="UNIT", help="Of the counter, such as second.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Write the plan and a picture of the trade-off there.")  # fmt: skip
@as_json
def design(out: Path | None, as_json: bool, **wanted: Any) -> None:
    """
    Choose mechanism, epsilon and way of answering for a counter: the least loss that reaches a half-width.

    Without --half-width, the narrowest interval within the limit. Epsilon has three significant digits and
    never passes it. Prints the design, what remembered and sampled answers would each give, its neighbours,
    and the section for plan.toml, whose figures reticent plan check repeats.

    \b
    Example:
      reticent design --range 21600 --devices 100000 --half-width 250 --epsilon 1 --unit second
      reticent design --range 21600 --devices 100000 --promise any-history --year 54 --round 6h

    Exit code 3 when the goal cannot be met: then the nearest design is shown, and what to give up.
    """
    from reticent import plots
    from reticent.lab.design import choose, draw, file_name, neighbours, plan_text, reason, section, ways_out

    choice = choose(_goal(wanted))
    make_folder(out)
    text = plan_text(choice)
    try:  # all numbers are a plan's by now; a name or a unit may still not be
        suits, problem = Plan.from_toml(text).name == choice.goal.name, "expected a plain name."
    except PlanError as error:
        suits, problem = False, str(error.problems[0])
    if not suits:
        raise click.UsageError(f"--name or --unit does not suit a plan: {problem}")
    around, outs = neighbours(choice), ways_out(choice)
    files: list[Path] = []
    if out is not None:
        file = out / f"{file_name(choice)}.toml"
        file.write_text(text, encoding="utf-8")
        files = [file, *plots.save(draw(choice), out, file_name(choice))]
    if as_json:
        print_json(
            {
                "met": choice.met,
                "goal": {**_floats(asdict(choice.goal)), "kind": choice.goal.kind},
                "chosen": _described(choice.chosen),
                "ways": _ways(choice),
                "reason": reason(choice),
                "give_up": [_floats(asdict(way)) for way in outs],
                "neighbours": [
                    {"label": neighbour.label, **_described(neighbour.design)} for neighbour in around
                ],
                "section": section(choice),
                "plan": text,
                "files": [str(file) for file in files],
            }
        )
    else:
        screen = console()
        _print_choice(screen, choice)
        _print_ways_out(screen, choice.goal, outs)
        _print_ways(screen, choice)
        _print_neighbours(screen, choice, around)
        _print_section(screen, choice, files)
    if not choice.met:
        found_problems()


def _goal(wanted: dict[str, Any]) -> Goal:
    from reticent.lab.design import Goal

    kind, mean, share = (wanted.pop(key) for key in ("kind", "expected_mean", "expected_share"))
    window, length = wanted["window"], wanted["round_seconds"]
    if window is not None and window % length:
        raise click.UsageError(
            f"--window: expected whole rounds of {duration(length)}, got {duration(window)}."
        )
    wanted["window"] = None if window is None else window // length
    if (kind == "histogram") != (wanted["buckets"] is not None):
        raise click.UsageError("--kind histogram and --buckets K go together.")
    if kind == "mean" and share is not None:
        raise click.UsageError("--expected-share is for --kind histogram; a mean has --expected-mean.")
    if kind == "histogram" and mean is not None:
        raise click.UsageError("--expected-mean is for --kind mean; a histogram has --expected-share.")
    try:
        return Goal(**wanted, expected=share if kind == "histogram" else mean)
    except ParameterError as error:
        name = f"--expected-{'share' if kind == 'histogram' else 'mean'}"
        option = name if error.name == "expected" else OPTIONS.get(error.name, f"--{error.name}")
        parts = r"\b(half_width|change_time|epsilon|lifetime|year|promise)\b"
        hint = re.sub(parts, lambda part: f"--{part[0].replace('_', '-')}", error.hint)
        hint = f"\n  Hint: {hint}" if hint else ""
        raise click.UsageError(f"{option}: expected {error.expected}, got {error.got}.{hint}") from None


def _floats(fields: dict[str, Any]) -> dict[str, Any]:
    """Rationals as floats, for JSON."""
    return {key: float(value) if isinstance(value, Fraction) else value for key, value in fields.items()}


def _described(design: Design) -> dict[str, object]:
    return {
        "mechanism": design.metric.mechanism.title,
        "epsilon": float(design.epsilon),
        "flip": float(design.flip),
        "bits": design.metric.bits,
        "steps": design.candidate.steps,
        "devices": design.devices,
        "half_width": design.half_width,
        "worst_half_width": design.worst_half_width,
        **_answering(design.plan, design.card),
    }


def _answering(plan: Plan, card: PrivacyCard) -> dict[str, object]:
    """How devices answer and what they lose, with the keys of `reticent plan check`."""
    if not plan.answers.sampled:
        return {"answers": "remembered", "loss": asdict(card.loss)}
    window = duration(plan.answers.window * plan.round_seconds)
    return {"answers": "sampled", "window": window, "loss": {**asdict(card.loss), "window": card.window}}


def _ways(choice: Choice) -> dict[str, object]:
    from reticent.lab.design import both_ways

    return {
        "sampled" if way.plan.answers.sampled else "remembered": {
            "epsilon": float(choice.chosen.epsilon),
            "flip": float(way.plan.metrics[0].flip.probability),
            **_answering(way.plan, way.card),
            "half_width": dict(way.half_widths),
        }
        for way in both_ways(choice)
    }


def _print_choice(screen: Console, choice: Choice) -> None:
    goal, chosen = choice.goal, choice.chosen
    asked = "the mean" if goal.buckets is None else f"{goal.buckets} buckets"
    parts = f" in {goal.segments} segments" if goal.segments > 1 else ""
    screen.print(
        f"[bold]{escape(goal.name)}[/bold]: {asked} of 0 to {_amount(goal, goal.max_value, mean=True)}, "
        f"from {goal.devices:,} devices{parts}"
    )
    if goal.lifetime is not None:
        limit = f"a same-pattern loss of {figure(float(goal.lifetime))}"
    elif goal.year is not None:
        limit = f"a loss of {figure(float(goal.year))} in a year"
    else:
        usual = " (the limit when none is given)" if goal.epsilon is None else ""
        limit = f"epsilon {figure(float(goal.limit / goal.answers_of_a_device))}{usual}"
    if goal.half_width is None:
        verdict = "[green]The narrowest interval within the limit[/green]"
    elif choice.met:
        verdict = f"[green]±{_amount(goal, goal.half_width)} can be had[/green]"
    else:
        verdict = f"[red]±{_amount(goal, goal.half_width)} cannot be had[/red] within {limit}; the nearest"
    answers = f"and flip {float(chosen.flip):g}"
    if goal.sampled:
        answers = f"in each window of {duration(goal.answers.window * goal.round_seconds)}"
    screen.print(
        f"{verdict}: {chosen.metric.mechanism.title} with epsilon {printed(float(chosen.epsilon))} {answers}."
    )
    share = f" ({chosen.half_width / float(goal.top):.2%} of the range)" if goal.buckets is None else ""
    if goal.expected is None:
        at = ", at worst"
    else:
        kind = "a mean" if goal.buckets is None else "a share"
        worst = _amount(goal, chosen.worst_half_width)
        at = f", at {kind} of {_amount(goal, goal.expected)}; ±{worst} at worst"
    of = " of a window" * goal.sampled
    screen.print(
        f"  {goal.confidence * 100:g} % half-width   ±{_amount(goal, chosen.half_width)}{of}{share}{at}"
    )
    figures = [
        f"{loss} {title}"
        for loss, title in zip(
            chosen.card.figures(chosen.card.loss), chosen.card.columns.values(), strict=True
        )
    ]
    screen.print(f"  privacy loss      {', '.join(figures[:3])}{',' * (len(figures) > 3)}")
    if len(figures) > 3:
        screen.print(f"{'':18}  {', '.join(figures[3:])}")


def _print_ways_out(screen: Console, goal: Goal, outs: tuple[WayOut, ...]) -> None:
    if outs:
        screen.print("\nTo have it, give up one of these and keep the others:")
    for way in outs:
        if way.instead is None:
            screen.print(f"  [dim]no {WORDS[way.part]} alone would do[/dim]")
            continue
        instead, wanted = (_part(goal, way.part, number) for number in (way.instead, way.wanted))
        unit = " devices" if way.part == "devices" else ""
        name = "" if way.part in ("devices", "half_width") else f"{WORDS[way.part]} "
        screen.print(f"  {name}{instead}{unit} instead of {wanted}")


def _part(goal: Goal, part: str, number: Fraction | int) -> str:
    if part == "half_width":
        return f"±{_amount(goal, number)}"
    if part == "window":
        return duration(int(number) * goal.round_seconds)
    return f"{number:,}" if isinstance(number, int) else f"{float(number):g}"


def _print_ways(screen: Console, choice: Choice) -> None:
    """What remembered and sampled answers would each give, and why one of them was chosen."""
    from reticent.lab.design import both_ways, reason

    names = ("constant", "lifetime", "any_history")
    heads = [CLAIMS[name].title for name in names[:2]] + ["any two\nhistories, 1 year"]
    rows = table(
        "",
        *heads,
        "± one round",
        "± one week",
        "± one year",
        title=f"\nBoth ways to answer, at epsilon {printed(float(choice.chosen.epsilon))}",
    )
    for way in both_ways(choice):
        label = f"remembered, flip {float(way.plan.metrics[0].flip.probability):g}"
        if way.plan.answers.sampled:
            label = f"sampled, once in {duration(way.plan.answers.window * way.plan.round_seconds)}"
        losses = [printed(getattr(way.card, name)) for name in names]
        rows.add_row(label, *losses, *map(figure, way.half_widths.values()))
    screen.print(rows)
    screen.print(escape(reason(choice)))


def _amount(goal: Goal, number: Fraction | float, mean: bool = False) -> str:
    """A value in its unit, or a share."""
    unit = f" {escape(goal.unit)}" if goal.unit and (mean or goal.buckets is None) else ""
    return f"{figure(float(number))}{unit}"


def _print_neighbours(screen: Console, choice: Choice, around: tuple[Neighbour, ...]) -> None:
    from reticent.lab.design import MOST_BUCKETS

    sampled = choice.goal.sampled
    heads = [LOSSES[name] for name in choice.chosen.card.columns]
    rows = table(
        "", "mechanism", "epsilon", "window" if sampled else "flip", "bits", "half-width", *heads,
        title="\nAround it",
    )  # fmt: skip
    for neighbour in around:
        design, plan = neighbour.design, neighbour.design.plan
        paper = " paper" if design.candidate.variant == "paper" else ""
        rows.add_row(
            neighbour.label,
            f"{design.candidate.mechanism}{paper}",
            printed(float(design.epsilon)),
            duration(plan.answers.window * plan.round_seconds) if sampled else f"{float(design.flip):g}",
            str(design.metric.bits),
            f"±{figure(design.half_width)}",
            *design.card.figures(design.losses),
        )
    screen.print(rows)
    others = "A finer step is" if choice.goal.buckets is None else "Other mechanisms are"
    if not sampled:
        screen.print(f"[dim]{others} shown at an equal same-pattern loss.[/dim]")
    elif choice.goal.buckets is not None:
        screen.print(f"[dim]{others} shown at an equal loss of a window.[/dim]")
    if choice.goal.buckets == MOST_BUCKETS:
        screen.print(
            "[dim]255 buckets or fewer could be asked about by hadamard-bit, which needs fewer devices.[/dim]"
        )


def _print_section(screen: Console, choice: Choice, files: list[Path]) -> None:
    from reticent.lab.design import check_command, section

    screen.print("\n[bold]For plan.toml[/bold]")
    screen.print(escape(section(choice)))
    if files:
        for file in files:
            screen.print(f"Written: {escape(str(file))}", soft_wrap=True)
        screen.print(f"The same figures: {escape(check_command(choice, str(files[0])))}", soft_wrap=True)
    else:
        screen.print("[dim]--out DIR writes it as a plan, with a picture of the trade-off.[/dim]")
    screen.print(
        "[dim]Between whom each loss holds, and what is open: docs/explanation/not-protected.md[/dim]"
    )
