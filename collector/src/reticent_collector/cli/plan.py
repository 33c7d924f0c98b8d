"""`reticent plan new`, `check`, `diff`, `export`, `types` and `certify`: a plan before it ships."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import floor
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from reticent.claims import NOT_COVERED
from reticent.device import Policy
from reticent.errors import ParameterError, PlanError, Problem
from reticent.losses import lifetime_of, loss_of_report, printed
from reticent.mechanisms import Flip
from reticent.plan import Answers, Metric, Plan
from reticent_collector.cli.options import confidence_option, input_file
from reticent_collector.cli.output import (
    VerbGroup,
    as_json,
    console,
    counted,
    figure,
    found_problems,
    print_json,
    table,
)
from reticent_collector.plans import diff as diff_plans
from reticent_collector.plans import export_plan, lint, plan_tracking
from reticent_collector.plans.linter import lint_succession
from reticent_collector.plans.matching import Tracking, tracking_in_words
from reticent_collector.plans.starters import STARTERS, starter_plan
from reticent_collector.privacy import CLAIMS, MEANING, Losses
from reticent_collector.privacy.card import PrivacyCard, duration, privacy_card
from reticent_collector.privacy.rounding import precise, upward

WEEK = 7 * 86_400
_TIMES = {3600: "an hour", 86_400: "a day", WEEK: "a week", 4 * WEEK: "four weeks"}
POOR = 0.05
"""A half-width above this part of the range suggests another design."""


@click.group(cls=VerbGroup, short_help="Write, check, compare, export or certify plans.")
def plan() -> None:
    """Write a plan to start from, check one before it ships, compare two versions, export or certify one."""


@plan.command(short_help="Show problems, privacy loss and accuracy of a plan.")
@click.argument("path", metavar="PLAN", type=input_file)
@click.option("--devices", type=click.IntRange(1, 10**12), default=100_000, show_default=True, metavar="N",
              help="Number of devices that answer a round.")  # fmt: skip
@confidence_option
@click.option("--rounds", type=click.IntRange(1, 10**9), metavar="N",
              help="Rounds in each of any two histories; a year when left out.")  # fmt: skip
@click.option(
    "--previous", type=input_file, metavar="PLAN", help="The version before: refuse silent changes."
)
@as_json
def check(
    path: Path, devices: int, confidence: float, rounds: int | None, previous: Path | None, as_json: bool
) -> None:
    """
    Show every problem of PLAN, the privacy loss of a device, and the expected accuracy of the estimates.

    \b
    Example:
      reticent plan check examples/plan.toml --devices 1000000

    Exit code 3 when the plan breaks a rule; warnings alone leave it at 0.
    """
    from reticent_collector.plans.certificate import is_certified

    plan: Plan | None = None
    try:
        plan = Plan.load(path)
    except PlanError as error:
        problems = [problem for problem in error.problems if isinstance(problem, Problem)]
    else:
        problems = lint_succession(Plan.load(previous), plan) if previous else []
        problems += lint(plan, datetime.now(UTC).date(), devices)
    card = privacy_card(plan, rounds) if plan else None
    answer: dict[str, Any] = {"metrics": {}, "groups": {}, "loss": None}
    if plan and card:
        answer = _answer(plan, card, devices, confidence, is_certified(plan, rounds))
    if as_json:
        print_json({**answer, "problems": [problem.to_dict() for problem in problems]})
    else:
        screen = console(markup=False)
        _print_problems(screen, path, problems)
        if plan and card:
            screen.print(answer["summary"] + "\n")
            _print_card(screen, plan, card, answer)
            _print_widths(screen, plan, answer)
    if any(problem.severity == "error" for problem in problems):
        found_problems()


@plan.command(short_help="Write a plan to start from.")
@click.option("--kind", type=click.Choice(list(STARTERS)), prompt="Kind of program",
              help="Kind of program; asked for when left out.")  # fmt: skip
@click.option("--metric", "metrics", multiple=True, metavar="NAME",
              help="Only this metric of the kind; may be repeated. All when left out.")  # fmt: skip
@click.option("--name", prompt="Name of the plan", metavar="NAME", help="Name of the plan; asked for.")
@click.option(
    "--owner", prompt="Contact for questions about it", metavar="CONTACT", help="Contact; asked for."
)
@click.option("--expires", type=click.DateTime(["%Y-%m-%d"]), metavar="DATE",
              help="When devices stop answering; in a year when left out.")  # fmt: skip
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Write it there, where no file is yet, instead of to standard output.")  # fmt: skip
def new(
    kind: str, metrics: tuple[str, ...], name: str, owner: str, expires: datetime | None, out: Path | None
) -> None:
    """
    Write a plan for a kind of program, which reticent plan check finds no problem in.

    \b
    Example:
      reticent plan new --kind desktop --name my-editor --owner telemetry@example.org --out my-plan.toml
    """
    today = datetime.now(UTC).date()
    day = expires.date() if expires else today + timedelta(days=365)
    if day <= today:
        raise click.UsageError(f"--expires: expected a day in the future, got {day}.")
    try:
        text = starter_plan(kind, name, owner, day, metrics or None)
        Plan.from_toml(text)
    except PlanError as error:
        raise click.UsageError(f"--{error.problems[0]}") from None
    except ParameterError as error:
        raise click.UsageError(f"--{error.name}: expected {error.expected}, got {error.got}.") from None
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        with out.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise click.UsageError(f"--out {out}: expected a file that is not there yet.") from None
    click.echo(f"Written: {out}\nCheck it: reticent plan check {out}")


@plan.command(short_help="Show what changes from one plan to another.")
@click.argument("before", metavar="BEFORE", type=input_file)
@click.argument("after", metavar="AFTER", type=input_file)
@as_json
def diff(before: Path, after: Path, as_json: bool) -> None:
    """
    Show what changes from plan BEFORE to plan AFTER, and whether devices draw remembered answers again.

    \b
    Example:
      reticent plan diff plan-v1.toml plan-v2.toml

    Exit code 3 when AFTER may not follow BEFORE (changed parameters under the same version).
    """
    old, new = Plan.load(before), Plan.load(after)
    difference = diff_plans(old, new)
    problems = lint_succession(old, new)
    if as_json:
        print_json({**difference.to_dict(), "problems": [problem.to_dict() for problem in problems]})
    else:
        screen = console(markup=False)
        _print_problems(screen, after, problems)
        for change in difference.changes:
            screen.print(f"{change.where}: {change.message}")
            if change.new_answers:
                answers = f"new answers ({', '.join(change.new_answers)})"
                more = f"up to {printed(change.loss)} more same-pattern loss"
                screen.print(f"  {answers}: {more}", style="yellow")
            if change.figures:
                screen.print(f"  losses: {_moved(change.figures)}", style="yellow")
        added = f"New answers add up to {printed(difference.lifetime_added)} to the same-pattern loss."
        screen.print(added if difference.new_answers else "No remembered answer is drawn again.")
        if difference.figures:
            screen.print(f"Losses of the whole plan: {_moved(difference.figures)}.")
    if problems:
        found_problems()


@plan.command(short_help="Write a plan as JSON for devices in other languages.")
@click.argument("path", metavar="PLAN", type=input_file)
def export(path: Path) -> None:
    """
    Write PLAN as JSON for devices in other languages, with every threshold as an integer.

    \b
    Example:
      reticent plan export examples/plan.toml
    """
    print_json(export_plan(Plan.load(path)))


@plan.command(short_help="Write the types of a plan's metrics and labels.")
@click.argument("path", metavar="PLAN", type=input_file)
@click.option("--python", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Where the Python stub goes, such as telemetry_types.pyi.")  # fmt: skip
@click.option("--typescript", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Where the TypeScript declaration goes, such as telemetry.d.ts.")  # fmt: skip
def types(path: Path, python: Path | None, typescript: Path | None) -> None:
    """
    Write the metrics and labels of PLAN as types, so that an editor marks a misspelt one.

    \b
    Example:
      reticent plan types examples/plan.toml --python telemetry_types.pyi
    """
    from reticent_collector.plans.types import python_types, typescript_types

    if python is None and typescript is None:
        raise click.UsageError("Expected --python FILE, --typescript FILE or both.")
    asked = Plan.load(path)
    for file, text in ((python, python_types), (typescript, typescript_types)):
        if file is not None:
            file.write_text(text(asked), encoding="utf-8")
            click.echo(f"Written to {file}.")


@plan.command(short_help="Write a certificate of a plan's figures, and check it with Coq.")
@click.argument("path", metavar="PLAN", type=input_file)
@click.option("--rounds", type=click.IntRange(1, 10**9), metavar="N",
              help="Rounds in each of any two histories; a year when left out.")  # fmt: skip
@click.option("--proofs", type=click.Path(path_type=Path), default="proofs", show_default=True, metavar="FOLDER",
              help="The theorems: folder proofs/ of the repository.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Where the certificate goes; nowhere when left out.")  # fmt: skip
@as_json
def certify(path: Path, rounds: int | None, proofs: Path, out: Path | None, as_json: bool) -> None:
    """
    Write the certificate of PLAN: its integers and figures, and hints from which Coq derives the figures.

    \b
    Example:
      reticent plan certify examples/plan.toml --out certificate.v

    Where coqc is installed, the certificate is checked. Exit code 3 when a figure is not certified.
    """
    from reticent_collector.plans.certificate import certify as write_certificate
    from reticent_collector.plans.certificate import check as check_certificate

    certificate = write_certificate(Plan.load(path), rounds)
    if out:
        out.write_text(certificate.text)
    certified: bool | None = None
    reasons = list(certificate.left_out)
    message = f"Certified: Coq derives every figure of {path.name} from the integers its devices use."
    if shutil.which("coqc") is None:
        message = "Not checked: coqc is not installed (Debian: apt-get install coq)."
    elif not (proofs / "Checker.v").exists():
        message = (
            f"Not checked: {proofs} has no theorems; name the folder proofs/ of the repository by --proofs."
        )
    elif not reasons:
        refused = check_certificate(certificate, proofs)
        certified = refused is None
        reasons += [f"Coq refuses the certificate: {refused}"] if refused else []
    if as_json:
        print_json(
            {"digest": certificate.digest, "certified": certified and not reasons, "problems": reasons}
        )
    else:
        screen = console(markup=False)
        screen.print("\n".join(f"Not certified: {reason}" for reason in reasons) or message)
    if reasons:
        found_problems()


def _moved(figures: Mapping[str, tuple[float, float]]) -> str:
    return ", ".join(
        f"{CLAIMS[name].title} {printed(before)} → {printed(after)}"
        for name, (before, after) in figures.items()
    )


def _answer(
    plan: Plan, card: PrivacyCard, devices: int, confidence: float, certified: bool
) -> dict[str, Any]:
    from reticent_collector.estimates import best_division

    metrics = {}
    for metric in plan.metrics:
        other, rival = metric.mechanism.alternative, None
        if other is not None:  # the same histogram by the other mechanism, to compare with
            rival = _described(plan, replace(metric, mechanism=other), card.rounds, devices, confidence)
        described = _described(plan, metric, card.rounds, devices, confidence)
        metrics[metric.name] = {**described, "unit": metric.unit, "alternative": rival}
    division = best_division(plan, devices, confidence, card.rounds)
    return {
        "summary": _summary(
            plan, card, devices, confidence, max(map(_of_range, plan.metrics, metrics.values()))
        ),
        "plan": plan.name,
        "version": plan.version,
        "devices": devices,
        "confidence": confidence,
        "metrics": metrics,
        "groups": {name: {"loss": asdict(loss)} for name, loss in card.groups.items()},
        "rounds": card.rounds,
        "min_reports": plan.min_reports,
        "loss": _loss(plan, card.loss),
        "windows": card.windows,
        "tracking": asdict(plan_tracking(plan, devices)),
        "division": None if division is None else asdict(division),
        "certified": certified,
        "default_device": {
            "report": loss_of_report(plan),
            "lifetime": lifetime_of(plan),
            "refuses": Policy().problems(plan),
        },
    }


def _in_words(seconds: int) -> str:
    """A length of time in a sentence: a week, 6 hours."""
    written = duration(seconds)
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    return _TIMES.get(seconds, f"{written[:-1]} {units[written[-1]]}")


def _summary(plan: Plan, card: PrivacyCard, devices: int, confidence: float, half_width: float) -> str:
    """What a plan promises and gives, for a reader of one sentence."""
    if card.window is not None:
        seconds = plan.answers.window * plan.round_seconds
        time = _in_words(seconds)
        promise = (
            f"Whatever a device sends in one window of {time} is at most {_times(card.window)} times as likely from "
            "one history of values as from any other."
        )
    else:
        time = _in_words(plan.round_seconds)
        promise = (
            f"All that a device sends from one memory is at most {_times(card.constant)} times as likely from values "
            "that never change as from any others that never change; values that change are protected less."
        )
    return (
        f"{promise} With {devices:,} devices, expect to know each figure of {time} to ± {_percent(half_width)} of its "
        f"range or better, with {confidence:.0%} confidence."
    )


@precise
def _times(loss: float) -> str:
    """How many times as likely a loss allows, rounded up."""
    return printed(upward(Decimal(loss).exp()), 3)


def _percent(share: float) -> str:
    """Two digits, rounded up."""
    return f"{printed(100 * share, 2).removesuffix('.0')} %"


def _of_range(metric: Metric, described: Mapping[str, Any]) -> float:
    """A half-width as a part of the range; a share has the range from 0 to 1."""
    return float(described["half_width"]) / (
        float(metric.max_value) if metric.kind in ("mean", "split") else 1.0
    )


def _loss(plan: Plan, loss: Losses) -> dict[str, float]:
    return asdict(loss) | ({"window": loss.round} if plan.answers.sampled else {})


def _described(plan: Plan, metric: Metric, rounds: int, devices: int, confidence: float) -> dict[str, object]:
    from reticent_collector.estimates import expected_half_width, paper_bound

    alone = replace(plan, metrics=(metric,), groups=(), answers=Answers(plan.answers.window))
    answering = max(1, devices * plan.asked // len(plan.metrics))  # in a round; if sampled, in a window
    return {
        "kind": metric.kind,
        "mechanism": metric.mechanism.title,
        "loss": _loss(plan, privacy_card(alone, rounds).metrics[metric.name]),
        "half_width": expected_half_width(metric, answering, confidence),
        "paper_bound": paper_bound(metric, answering, confidence),
    }


def _print_problems(screen: Console, path: Path, problems: list[Problem]) -> None:
    for problem in problems:
        style = "red" if problem.severity == "error" else "yellow"
        screen.print(Text.assemble((problem.severity, style), f" {path.name}: {problem}"))
    errors = sum(problem.severity == "error" for problem in problems)
    if errors:
        screen.print(f"\n{counted(errors, 'problem')} to fix before this plan can be used.")
    elif problems:
        screen.print()


def _print_card(screen: Console, plan: Plan, card: PrivacyCard, answer: Mapping[str, Any]) -> None:
    heads = [
        head.replace(" moved by", " moved\nby").replace("two histories, ", "two\nhistories, ")
        for head in card.columns.values()
    ]
    screen.print(f"Privacy loss of {plan.name} (version {plan.version}), rounded up", style="bold")
    rows = [(name, *card.figures(loss)) for name, loss in card.metrics.items()]
    rows += [(f"  group {name}", *card.figures(together)) for name, together in card.groups.items()]
    losses_table = table("", *heads, rows=rows)
    losses_table.add_section()
    losses_table.add_row("whole plan", *card.figures(card.loss))
    screen.print(losses_table)
    width = max(len(title) for title, _ in card.scopes)
    scopes = [f"  {title:{width}}  {scope}" for title, scope in card.scopes]
    tracked = tracking_in_words(Tracking(**answer["tracking"]))
    screen.print(
        "\n".join(["", MEANING, *scopes, NOT_COVERED, "See docs/explanation/not-protected.md."]), style="dim"
    )
    screen.print(f"\n{tracked}\n{_otherwise(plan, card)}")
    if answer["division"] is not None:
        screen.print(_division(plan, card, answer["division"]))
    if answer["certified"]:
        screen.print("Certified: proofs/ derives every loss above from the integers that a device uses.")
    screen.print(_by_default(plan, answer["default_device"]))


def _by_default(plan: Plan, device: Mapping[str, Any]) -> str:
    """What a device with the default policy does with a plan, by the bound that it counts with."""
    counts = f"{printed(device['report'])} for a {'window' if plan.answers.sampled else 'report'}"
    if not plan.answers.sampled:
        counts += f" and {printed(device['lifetime'])} for life"
    verdict = "; ".join(["refuses it", *device["refuses"]]) if device["refuses"] else "takes it up"
    return f"A device with the default policy, which counts {counts}, {verdict}."


def _otherwise(plan: Plan, card: PrivacyCard) -> str:
    """The losses of the other kind of answers."""
    rounds = card.rounds
    if card.window is not None:
        answers = Answers(metrics=plan.answers.metrics)
        metrics = tuple(
            replace(metric, mechanism=metric.mechanism.for_remembered, flip=Flip("0.2"))
            for metric in plan.metrics
        )
        other = privacy_card(replace(plan, answers=answers, metrics=metrics), rounds)
        return (
            f"Remembered answers with flip 0.2: {printed(other.constant)} for a constant device, "
            f"{printed(other.lifetime)} same pattern, {printed(other.any_history)} any two histories."
        )
    window = max(1, WEEK // plan.round_seconds)
    answers = Answers(window, plan.answers.metrics)
    other = privacy_card(replace(plan, answers=answers, metrics=_with_flip(plan, Flip(0))), rounds)
    length = duration(window * plan.round_seconds)
    return (
        f"Sampled answers, one report in {length}: {printed(other.window or 0)} in a window, "
        f"{printed(other.any_history)} any two histories, {card.time}."
    )


def _division(plan: Plan, card: PrivacyCard, division: Mapping[str, Any]) -> str:
    """What a plan would gain if a device answered some of its metrics."""
    loss = division["loss"]
    return (
        f"With metrics = {division['metrics']} in [answers], a device answers {division['metrics']} of the "
        f"{len(plan.metrics)} metrics. Each epsilon can then be {division['times']:.3g} times as large: "
        f"{printed(loss['constant'])} for a constant device instead of {printed(card.constant)}, "
        f"{printed(loss['change_per_round'])} for a change moved by one round instead of "
        f"{printed(card.change_per_round)}, and intervals at least {floor(100 * division['narrower']) / 100:g} times "
        "narrower."
    )


def _with_flip(plan: Plan, flip: Flip) -> tuple[Metric, ...]:
    return tuple(replace(metric, flip=flip) for metric in plan.metrics)


def _print_widths(screen: Console, plan: Plan, answer: Mapping[str, Any]) -> None:
    of_what = f"{'window' if plan.answers.sampled else 'round'} with {answer['devices']:,} devices"
    widths = table(
        f"{answer['confidence']:.0%} half-width", "mechanism", "at worst", "of range", "paper's bound",
        title=f"\nExpected accuracy per {of_what}",
    )  # fmt: skip
    poor = False
    for metric in plan.metrics:
        described = answer["metrics"][metric.name]
        unit = f" {metric.unit}" if metric.kind in ("mean", "split") and metric.unit else ""
        poor |= _of_range(metric, described) > POOR
        for label, one in ((metric.name, described), ("  instead", described["alternative"])):
            if one is not None:
                half = f"±{figure(one['half_width'])}{unit}"
                bound = f"±{figure(one['paper_bound'])}"
                widths.add_row(label, one["mechanism"], half, f"{_of_range(metric, one):.2%}", bound)
    screen.print(widths)
    if poor:
        screen.print("\nreticent design helps to choose epsilon, flip and mechanism for a half-width.")
