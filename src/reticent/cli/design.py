"""`reticent design`: from what is wanted to the section of a plan."""

from __future__ import annotations

import re
from dataclasses import asdict, astuple
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape

from reticent.cli.output import as_json, console, figure, found_problems, make_folder, print_json, table
from reticent.errors import ParameterError, PlanError
from reticent.mechanisms import exact
from reticent.plan import Plan
from reticent.privacy import YEAR, printed

if TYPE_CHECKING:
    from reticent.lab.design import Choice, Design, Neighbour, WayOut, Wish

OPTIONS = {"max_value": "--range", "half_width": "--half-width", "change_time": "--change-time"}
"""What a part of a wish is called on the command line, where it is not just --part."""

WORDS = {
    "devices": "number of devices",
    "epsilon": "epsilon",
    "lifetime": "same-pattern loss",
    "half_width": "half-width",
    "flip": "flip",
    "change_time": "loss of a moved change",
}
"""The parts of a wish, for people."""

COLUMNS = (
    "mechanism",
    "epsilon",
    "flip",
    "bits",
    "half-width",
    "one round",
    "constant",
    "pattern",
    "change",
    "any",
)


def _number(context: click.Context, parameter: click.Parameter, text: str | None) -> Fraction | None:
    """A number taken as it is written: 0.1 is one tenth."""
    try:
        return None if text is None else exact(text)
    except ParameterError:
        raise click.BadParameter(f"expected a number such as 0.2 or 1/3, got {text!r}.") from None


@click.command(short_help="Find mechanism, epsilon and flip for a wish.")
@click.option("--range", "max_value", callback=_number, required=True, metavar="M",
              help="Top of the counter's range; it begins at 0.")  # fmt: skip
@click.option("--devices", type=int, required=True, metavar="N", help="How many answer a round.")
@click.option("--half-width", callback=_number, metavar="H",
              help="Wanted of a round's interval: in units for a mean, a share for a histogram.")  # fmt: skip
@click.option("--epsilon", callback=_number, metavar="E",
              help="Most that a constant device may lose, and half of the same-pattern loss; 4 if "
                   "there is no limit.")  # fmt: skip
@click.option("--lifetime", callback=_number, metavar="L",
              help="Most that may be lost between devices of the same pattern, instead.")  # fmt: skip
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
    Choose mechanism, epsilon and flip for a counter: the least same-pattern loss that reaches a half-width.

    Without --half-width, the narrowest interval within --epsilon or --lifetime. Epsilon has three
    significant digits and never passes the limit. Prints the design and its neighbours, and the section
    for plan.toml, whose figures reticent plan check repeats.

    \b
    Example:
      reticent design --range 21600 --devices 100000 --half-width 250 --epsilon 1 --unit second

    Exit code 3 when the wish cannot be met: then the nearest design is shown, and what to give up.
    """
    from reticent import plots
    from reticent.lab.design import choose, file_name, neighbours, plan_text, section, ways_out
    from reticent.lab.design.picture import draw

    choice = choose(_wish(wanted))
    make_folder(out)
    text = plan_text(choice)
    try:  # all numbers are a plan's by now; a name or a unit may still not be
        suits, reason = Plan.from_toml(text).name == choice.wish.name, "expected a plain name."
    except PlanError as error:
        suits, reason = False, str(error.problems[0])
    if not suits:
        raise click.UsageError(f"--name or --unit does not suit a plan: {reason}")
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
                "wish": {**_floats(asdict(choice.wish)), "kind": choice.wish.kind},
                "chosen": _described(choice.chosen),
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
        _print_choice(screen, choice, outs)
        _print_neighbours(screen, choice, around)
        _print_section(screen, choice, files)
    if not choice.met:
        found_problems()


def _wish(wanted: dict[str, Any]) -> Wish:
    from reticent.lab.design import Wish

    kind, mean, share = (wanted.pop(key) for key in ("kind", "expected_mean", "expected_share"))
    if (kind == "histogram") != (wanted["buckets"] is not None):
        raise click.UsageError("--kind histogram and --buckets K go together.")
    if kind == "mean" and share is not None:
        raise click.UsageError("--expected-share is for --kind histogram; a mean has --expected-mean.")
    if kind == "histogram" and mean is not None:
        raise click.UsageError("--expected-mean is for --kind mean; a histogram has --expected-share.")
    try:
        return Wish(**wanted, expected=share if kind == "histogram" else mean)
    except ParameterError as error:
        name = f"--expected-{'share' if kind == 'histogram' else 'mean'}"
        option = name if error.name == "expected" else OPTIONS.get(error.name, f"--{error.name}")
        parts = r"\b(half_width|change_time|epsilon|lifetime)\b"
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
        "loss": asdict(design.losses),
    }


def _print_choice(screen: Console, choice: Choice, outs: tuple[WayOut, ...]) -> None:
    wish, chosen, loss = choice.wish, choice.chosen, choice.chosen.losses
    asked = "the mean" if wish.buckets is None else f"{wish.buckets} buckets"
    parts = f" in {wish.segments} segments" if wish.segments > 1 else ""
    screen.print(
        f"[bold]{escape(wish.name)}[/bold]: {asked} of 0 to {_amount(wish, wish.max_value, mean=True)}, "
        f"from {wish.devices:,} devices{parts}"
    )
    if wish.lifetime is not None:
        limit = f"a same-pattern loss of {figure(float(wish.lifetime))}"
    else:
        usual = " (the limit when none is given)" if wish.epsilon is None else ""
        limit = f"epsilon {figure(float(wish.limit / 2))}{usual}"
    if wish.half_width is None:
        verdict = "[green]The narrowest interval within the limit[/green]"
    elif choice.met:
        verdict = f"[green]±{_amount(wish, wish.half_width)} can be had[/green]"
    else:
        verdict = f"[red]±{_amount(wish, wish.half_width)} cannot be had[/red] within {limit}; the nearest"
    screen.print(
        f"{verdict}: {chosen.metric.mechanism.title} with epsilon {figure(float(chosen.epsilon))} "
        f"and flip {float(chosen.flip):g}."
    )
    share = f" ({chosen.half_width / float(wish.top):.2%} of the range)" if wish.buckets is None else ""
    if wish.expected is None:
        at = ", at worst"
    else:
        kind = "a mean" if wish.buckets is None else "a share"
        worst = _amount(wish, chosen.worst_half_width)
        at = f", at {kind} of {_amount(wish, wish.expected)}; ±{worst} at worst"
    screen.print(
        f"  {wish.confidence * 100:g} % half-width   ±{_amount(wish, chosen.half_width)}{share}{at}\n"
        f"  privacy loss      {printed(loss.round)} one round, {printed(loss.constant)} constant device, "
        f"{printed(loss.lifetime)} same pattern,\n"
        f"{'':18}  {printed(loss.change_per_round)} change moved by one round, "
        f"{printed(loss.any_history)} any two histories of {YEAR:,} rounds"
    )
    if outs:
        screen.print("\nTo have it, give up one of these and keep the others:")
    for way in outs:
        if way.instead is None:
            screen.print(f"  [dim]no {WORDS[way.part]} alone would do[/dim]")
            continue
        instead, wished = (
            f"±{_amount(wish, number)}"
            if way.part == "half_width"
            else (f"{number:,}" if isinstance(number, int) else f"{float(number):g}")
            for number in (way.instead, way.wished)
        )
        unit = " devices" if way.part == "devices" else ""
        name = f"{WORDS[way.part]} " if way.part in ("epsilon", "lifetime", "flip", "change_time") else ""
        screen.print(f"  {name}{instead}{unit} instead of {wished}")


def _amount(wish: Wish, number: Fraction | float, mean: bool = False) -> str:
    """A value in its unit, or a share."""
    unit = f" {escape(wish.unit)}" if wish.unit and (mean or wish.buckets is None) else ""
    return f"{figure(float(number))}{unit}"


def _print_neighbours(screen: Console, choice: Choice, around: tuple[Neighbour, ...]) -> None:
    from reticent.lab.design import MOST_BUCKETS

    rows = table("", *COLUMNS, title="\nAround it")
    for neighbour in around:
        design, loss = neighbour.design, neighbour.design.losses
        paper = " paper" if design.candidate.variant == "paper" else ""
        rows.add_row(
            neighbour.label,
            f"{design.candidate.mechanism}{paper}",
            figure(float(design.epsilon)),
            f"{float(design.flip):g}",
            str(design.metric.bits),
            f"±{figure(design.half_width)}",
            *map(printed, astuple(loss)),
        )
    screen.print(rows)
    others = "A finer step is" if choice.wish.buckets is None else "Other mechanisms are"
    screen.print(f"[dim]{others} shown at an equal same-pattern loss.[/dim]")
    if choice.wish.buckets == MOST_BUCKETS:
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
