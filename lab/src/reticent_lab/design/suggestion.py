"""The answer to a question: a plan, why it is as it is, what else there is, and what to give up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import cast

from reticent.errors import ParameterError
from reticent.losses import printed
from reticent_collector.privacy.card import duration
from reticent_lab.design.question import DAY, LENGTHS, MOST_DEVICES, Question
from reticent_lab.design.search import POLICY, PlannedMetric, Proposal, estimate, is_apart, proposals
from reticent_lab.design.text import means_text, metric_text, toml_number

WIDER = {days: name for name, days in LENGTHS.items()} | {84: "12 weeks"}
"""Periods in words."""


@dataclass(frozen=True)
class Instead:
    """Another plan, and in what it differs."""

    what: str
    proposal: Proposal


@dataclass(frozen=True)
class Suggestion:
    """What a question comes to."""

    best: Proposal
    others: tuple[Instead, ...]  #: The best plans with other rounds, windows or metrics per report
    otherwise: Proposal | None  #: The best plan with the other kind of answers
    gives_up: tuple[str, ...]  #: Each alone would reach every goal; empty where all are reached

    @property
    def alternatives(self) -> tuple[Instead, ...]:
        """Two of them: the other kind of answers, and the next best plan of this kind."""
        kind = "remembered answers" if self.best.shape.window_days else "sampled answers"
        first = [Instead(kind, self.otherwise)] if self.otherwise is not None else []
        return tuple([*first, *self.others][:2])


@lru_cache(maxsize=256)
def suggest(question: Question) -> Suggestion:
    """
    The best plan for a question.

    >>> from reticent_lab.design import Figure
    >>> figure = Figure("minutes", unit="minute", max_value=Fraction(1440))
    >>> best = suggest(Question((figure,), devices=50_000, limit=Fraction(12))).best
    >>> best.shape.window_days, float(best.parts[0].epsilon), round(best.parts[0].half_width, 1)
    (56, 1.5, 28.3)
    """
    found = proposals(question)
    if not found:
        raise ParameterError(
            question.promise,
            "a loss that leaves each metric an epsilon of 0.001",
            str(question.limit),
            "fewer metrics, or a larger limit",
        )
    best = found[0]
    return Suggestion(
        best, tuple(_others(best, found)), _otherwise(best), () if best.met else _gives_up(best)
    )


def _others(best: Proposal, found: list[Proposal]) -> Iterator[Instead]:
    """The best plan with another window, round, and number of metrics per report."""
    ways: list[tuple[Callable[[Proposal], int], Callable[[Proposal], str]]] = [
        (lambda one: one.shape.apart, how_asked),
        (lambda one: one.shape.window_days, lambda one: f"windows of {one.shape.window_days}d"),
        (lambda one: one.shape.round_days, lambda one: f"rounds of {one.shape.round_days}d"),
        (
            lambda one: one.shape.asked,
            lambda one: f"{one.shape.asked} of {len(one.parts)} metrics per report",
        ),
    ]
    for of, words in ways:
        other = next((one for one in found if of(one) != of(best)), None)
        if other is not None:
            yield Instead(words(other), other)


def how_asked(proposal: Proposal) -> str:
    """How the amounts of splits are asked for."""
    splits = [part.figure for part in proposal.parts if part.figure.kind == "split"]
    if not proposal.shape.apart:
        return f"{' and '.join(split.name for split in splits)} as one answer"
    words = (f"{split.name} as {len(split.labels)} means with a joint limit" for split in splits)
    return " and ".join(words)


def _otherwise(best: Proposal) -> Proposal | None:
    question = best.question
    sampled = question.promise != "constant"
    limit = Fraction(POLICY.max_lifetime or 12) / 2 if sampled else Fraction(POLICY.max_year or 54)
    if any(figure.half_width is None for figure in question.figures):
        of_report = Fraction(str((best.card.window or 0.0) if sampled else best.card.constant))
        limit = min(limit, of_report) if sampled else limit
    other = replace(question, promise="constant" if sampled else "year", limit=limit)
    return next(iter(proposals(other)), None)


def _gives_up(best: Proposal) -> tuple[str, ...]:
    """Which one thing to give up to reach every goal."""
    question = best.question
    ways = [
        " and ".join(
            f"{part.figure.name} ±{size_of(part, part.half_width)} instead of "
            f"±{size_of(part, float(part.figure.half_width))}"
            for part in best.parts
            if part.figure.half_width is not None
        )
    ]

    factor, least = estimate(replace(question, limit=Fraction(10**6)))
    if factor <= 1:
        loss = {"constant": "for ever", "window": "in a window", "year": "in a year"}[question.promise]
        ways.append(f"a loss of {amount(1.005 * least)} {loss} instead of {amount(float(question.limit))}")
    fleet = float(question.devices)
    for _ in range(3):  # the half-widths fall with the root of the fleet, but for what the ranges cut off
        if fleet < MOST_DEVICES:
            factor, _ = estimate(replace(question, devices=int(fleet)))
            fleet *= max(1.0, factor) ** 2
    if factor < 1.01 and fleet < MOST_DEVICES:
        ways.append(f"{int(float(f'{1.02 * fleet:.3g}')):,} devices instead of {question.devices:,}")
    for per in (28, 84):
        if per > question.per and per % question.per == 0 and estimate(replace(question, per=per))[0] < 0.995:
            ways.append(f"figures per {WIDER[per]} instead of per {period(question)}")
            break
    return tuple(ways)


def amount(number: float) -> str:
    """A number of three digits that is not below another."""
    shown = f"{number:.3g}"
    if float(shown) < number:
        shown = (
            f"{number * 1.005:.3g}" if float(f"{number * 1.005:.3g}") >= number else f"{number * 1.01:.3g}"
        )
    return f"{float(shown):,.10g}"


def size_of(part: PlannedMetric, half_width: float) -> str:
    """A half-width as a number of its unit, or as a share in percent."""
    return amount(half_width) if part.figure.is_amount else f"{amount(100 * half_width)} %"


def accuracy(part: PlannedMetric, question: Question) -> str:
    """How precise a figure is, in words."""
    figure = part.figure
    unit = f" {figure.unit}" if figure.unit else ""
    what = f"{unit} per day" if figure.is_amount else " of devices"
    goal = ""
    if figure.half_width is not None:
        reached = part.half_width <= figure.half_width
        wanted = float(figure.half_width) * (1 if figure.is_amount else 100)
        goal = (
            f" ({'wanted' if reached else 'NOT the wanted'} ±{wanted:.6g}{'' if figure.is_amount else ' %'})"
        )
    every = ", for all labels at once" if figure.kind == "split" else ""
    width = f"±{size_of(part, part.half_width)}{what}{goal}"
    words = f"{width}, per {period(question)}, at worst{every}, {question.confidence:.0%}"
    if figure.quantile is None:
        return words
    low, high = (toml_number(edge) for edge in figure.edges[-3:-1])
    within = "" if part.half_width <= cast(Fraction, figure.half_width) else "NOT "
    share = toml_number(100 * figure.quantile.level)
    return f"{share} % quantile {within}known to lie in {low} to {high}{unit}, by shares to {words}"


def period(question: Question) -> str:
    """The period of its figures."""
    return WIDER.get(question.per, f"{question.per} days")


def promise(question: Question) -> str:
    """Its promise in words."""
    limit = amount(float(question.limit))
    return {
        "constant": f"a device that keeps its values loses at most {limit} for ever",
        "window": f"any two histories lose at most {limit} in a window",
        "year": f"any two histories lose at most {limit} in a year",
    }[question.promise]


def losses_in_words(proposal: Proposal) -> str:
    """What a plan costs a device, in words."""
    card = proposal.card
    return ", ".join(
        f"{title}: {figure}"
        for title, figure in zip(card.columns.values(), card.figures(card.loss), strict=True)
    )


def reasons(answer: Suggestion) -> list[str]:
    """Why the plan is as it is."""
    best = answer.best
    shape = best.shape
    lines = [f"Rounds of {shape.round_days}d."]
    if shape.window_days:
        lines = [
            f"Rounds of {shape.round_days}d, sampled in windows of {shape.window_days}d: one report in each."
        ]
    if len(best.parts) > 1:
        lines.append(f"A report answers {shape.asked} of {len(best.parts)} metrics.")
    lines += [f"With {other.what}: {compared(best, other.proposal)}." for other in answer.others]
    loose = [part.figure.name for part in best.parts if part.figure.half_width is None]
    if 0 < len(loose) < len(best.parts):
        lines.append(f"Without goals, {', '.join(loose)} get what the goals of the others leave.")
    if shape.window_days > 28:
        lines.append(
            f"A device answers no window that began before it was enrolled: newcomers count after up to "
            f"{2 * shape.window_days}d."
        )
    for part in best.parts:
        quantile = part.figure.quantile
        if quantile is not None:
            lines.append(
                f"{part.figure.name}: the quantile is {toml_number(quantile.value)} in the values given. Once it "
                "leaves the two inner edges, its interval is as wide as the bucket it went to."
            )
        if part.figure.kind == "mean" and part.figure.spread is not None:
            top = Fraction(part.metric.max_value)
            spread, days = part.figure.spread, shape.round_days
            lost = spread.cut(days, top) / (spread.mean(days) or 1.0)
            lines.append(
                f"{part.figure.name}: a range of {toml_number(top)} clips {spread.clipped(days, top):.2%} of the "
                f"values and {lost:.1%} of their total; "
                f"that is {amount(part.clipping)} of its half-width, and not in the intervals of estimates."
            )
    return lines


def compared(best: Proposal, other: Proposal) -> str:
    """How another plan compares, in words."""
    if best.met and other.met and all(part.figure.half_width is not None for part in best.parts):
        return f"a loss of {printed(other.loss)} instead of {printed(best.loss)}"
    return f"half-widths {other.factor / best.factor:.3g} times as wide, at a loss of {printed(other.loss)}"


def plan_text(answer: Suggestion) -> str:
    """A whole plan.toml, with the reasons as comments."""
    comments = "".join(f"# {line}".rstrip() + "\n" for line in _comments(answer))
    return comments + _tables(answer.best)


def _comments(answer: Suggestion) -> list[str]:
    best = answer.best
    question = best.question
    lines = [f"Made by reticent design for {question.devices:,} devices; {promise(question)}."]
    if question.segments > 1:
        lines.append(f"Half-widths are those of each of {question.segments} equal segments.")
    lines += ["", *(f"{part.figure.name}: {accuracy(part, question)}." for part in best.parts)]
    lines += [
        "",
        f"Privacy loss. {losses_in_words(best)}.",
        "",
        "Why:",
        *(f"  {line}" for line in reasons(answer)),
    ]
    if answer.gives_up:
        lines += ["", "To reach every goal, give up one of these:", *(f"  {way}" for way in answer.gives_up)]
    for number, other in enumerate(answer.alternatives, 1):
        lines += ["", f"Alternative {number}, {other.what}: {losses_in_words(other.proposal)};"]
        lines += [f"  {part.figure.name} {accuracy(part, question)}" for part in other.proposal.parts]
    return [*lines, "", f"Name an owner and a day of expiry. {check_command(answer, 'plan.toml')}"]


def _tables(best: Proposal) -> str:
    question, shape = best.question, best.shape
    text = f'\n[plan]\nname = "{question.name}"\nversion = 1\nround = "{duration(shape.round_days * DAY)}"\n'
    if shape.window_days:
        text += f'\n[answers]\nkind = "sampled"\nwindow = "{shape.window_days}d"\n'
    elif shape.asked < len(best.parts):
        text += "\n[answers]\n"
    if shape.asked < len(best.parts):
        text += f"metrics = {shape.asked}\n"
    for part in best.parts:
        metric = part.metric
        edges = (
            [Fraction(edge) for edge in metric.mechanism.points] if part.figure.kind == "histogram" else []
        )
        flip = None if shape.window_days else metric.flip.probability
        settings = dict(metric.mechanism.settings)
        write = means_text if is_apart(part.figure, shape) else metric_text
        text += "\n" + write(part.figure, Fraction(metric.max_value), edges, settings, part.epsilon, flip)
    return text


def check_command(answer: Suggestion, path: str) -> str:
    """What prints the figures of a round once more."""
    question = answer.best.question
    confidence = "" if question.confidence == 0.95 else f" --confidence {question.confidence:g}"
    return f"reticent plan check {path} --devices {question.reports}{confidence}"


def described(proposal: Proposal) -> dict[str, object]:
    """For JSON."""
    shape = proposal.shape
    return {
        "met": proposal.met,
        "round_days": shape.round_days,
        "window_days": shape.window_days or None,
        "metrics_per_report": shape.asked,
        "loss": proposal.loss,
        "losses": proposal.card.to_dict(),
        "metrics": {
            part.figure.name: {
                "kind": part.figure.kind,
                "mechanism": part.metric.mechanism.name,
                "epsilon": part.epsilon,
                "metrics": [metric.name for metric in part.metrics],
                "max_value": Fraction(part.metric.max_value) if part.figure.is_amount else None,
                "half_width": part.half_width,
                "wanted": part.figure.half_width,
                "clipping": part.clipping,
                "half_width_of_round": part.of_round,
            }
            for part in proposal.parts
        },
    }
