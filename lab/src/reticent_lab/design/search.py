"""
Every plan that answers a question, and the best of them.

A plan has a length of rounds, a way of answering (with a length of windows), a number of metrics that a report
answers, a way to ask for the amounts of a split, and for each metric a range, a mechanism and an epsilon. With all
but the epsilons fixed, half-widths fall as an epsilon grows, so each metric has a least epsilon that is enough,
whatever the others are; a plan's loss is that of the dearest metrics of a report. So the least loss of such a plan,
or the least factor by which all goals have to grow to be within the limit, is found without trying combinations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reticent.device import Policy
from reticent.errors import PlanError
from reticent.mechanisms import MECHANISMS
from reticent.plan import Answers, Group, Metric, Plan
from reticent_collector.estimates import expected_average_half_width, expected_half_width
from reticent_collector.privacy.card import PrivacyCard, loss_of_plan, privacy_card
from reticent_lab.design.question import DAY, Figure, Question
from reticent_lab.design.text import means_text, metric_text

WINDOWS = (7, 14, 21, 28, 35, 42, 56, 70, 84, 112, 140, 168, 252, 364)
"""Lengths of windows, days."""
LEAST_EPSILON = Fraction(1, 1000)
FLIP = Fraction(1, 5)
"""Of remembered answers: what Windows uses (§5 of the paper)."""
POLICY = Policy()
"""What a device allows if its host does not say otherwise."""
_POINTS = 24  # Epsilons at which half-widths are worked out; between them they are interpolated
_FACTORS = (1e-6, 1e6)
_TRIES = 5
_STEPS = 30


@dataclass(frozen=True)
class PlanShape:
    """A plan but for its metrics' ranges, mechanisms and epsilons."""

    round_days: int
    window_days: int  #: 0: answers are remembered
    asked: int  #: Metrics that a report answers
    apart: bool = False  #: A split is asked as a mean for each of its labels, with a joint limit

    @property
    def answers(self) -> Answers:
        """How devices answer."""
        return Answers(self.window_days // self.round_days)


@dataclass(frozen=True)
class PlannedMetric:
    """One metric of a plan, and what comes of it; half-widths in the unit of its figure."""

    figure: Figure
    metrics: tuple[Metric, ...]  #: One; of a split that is asked apart, a mean for each label
    half_width: float  #: Of the period that is asked about, clipping included
    clipping: float  #: How much of that is what the range cuts off
    of_round: float  #: In units of a round, without clipping: what `reticent plan check` prints

    @property
    def metric(self) -> Metric:
        """The metric; the others are like it."""
        return self.metrics[0]

    @property
    def epsilon(self) -> Fraction:
        """ε of one answer."""
        return self.metric.mechanism.epsilon


@dataclass(frozen=True)
class Proposal:
    """A plan that answers a question as well as one can."""

    question: Question
    shape: PlanShape
    plan: Plan
    parts: tuple[PlannedMetric, ...]

    @cached_property
    def card(self) -> PrivacyCard:
        """What it costs a device."""
        return privacy_card(self.plan)

    @property
    def loss(self) -> float:
        """What the promise is about."""
        losses = {"constant": self.card.constant, "window": self.card.window, "year": self.card.any_history}
        return losses[self.question.promise] or 0.0

    @property
    def met(self) -> bool:
        """Whether every goal is reached."""
        return all(
            part.figure.half_width is None or part.half_width <= part.figure.half_width for part in self.parts
        )

    @property
    def factor(self) -> float:
        """The largest half-width, in parts of what was wanted, or of the size of the figure."""
        round_days = self.shape.round_days
        return max(part.half_width / wanted(part.figure, round_days) for part in self.parts)

    def rank(self, *figures: float) -> tuple[float, ...]:
        """The less, the better: by these figures, then short windows, then long rounds."""
        return *(round(figure, 9) for figure in figures), self.shape.window_days, -self.shape.round_days


def is_allowed(question: Question, plan: Plan) -> bool:
    """Whether a plan is within the promise, and a device takes it up by default."""
    card = privacy_card(plan)
    losses = {"constant": card.constant, "window": card.window, "year": card.any_history}
    is_within = (losses[question.promise] or 0.0) <= question.limit
    return is_within and not POLICY.problems(plan)


def wanted(figure: Figure, round_days: int) -> float:
    """The goal of a figure; where there is none, its size."""
    if figure.half_width is not None:
        return float(figure.half_width)
    if not figure.is_amount:
        return 1.0
    if figure.spread is not None:
        return figure.spread.mean(round_days) / round_days or 1.0
    return float(figure.max_value or 1)


def shapes(question: Question) -> Iterator[PlanShape]:
    """Every shape that suits a question: windows are whole periods, or periods are whole windows."""
    for round_days in question.rounds:
        windows: Sequence[int] = (0,)
        if question.promise != "constant":
            windows = [
                days
                for days in WINDOWS
                if days % round_days == 0 and (days % question.per == 0 or question.per % days == 0)
            ]
        for window_days in windows:
            for asked in range(1, len(question.figures) + 1):
                yield PlanShape(round_days, window_days, asked)
            if any(figure.kind == "split" for figure in question.figures):
                yield PlanShape(round_days, window_days, len(question.figures), apart=True)


Settings = dict[str, str | int]
Asked = tuple[Metric, ...]
"""What a figure is asked by: a metric, or a mean for each label of a split."""


class _Variant(NamedTuple):
    """A mechanism as a plan names it; what it does not name, such as the size of a subset, may change with epsilon."""

    settings: Settings
    asked: tuple[Asked, ...]  #: At growing epsilons


@lru_cache(maxsize=512)
def _variants(figure: Figure, shape: PlanShape, name: str) -> tuple[_Variant, ...]:
    """A figure by each mechanism that there is for it, with a range of 1 where that is open, at growing epsilons."""
    sampled = shape.window_days > 0
    top = float(min(POLICY.max_epsilon or 20, 20))
    epsilons = np.geomspace(float(LEAST_EPSILON), top, _POINTS)
    settings: list[Settings] = [{}]
    if figure.kind in ("histogram", "choice", "split") and not is_apart(figure, shape):
        buckets = len(figure.labels) + 1 if figure.labels else len(edges_of(figure, shape.round_days)) - 1
        powers = [1 << power for power in range(buckets.bit_length()) if 1 << power < buckets]
        names = [mechanism.name for mechanism in MECHANISMS.values() if mechanism.kind == "histogram"]
        settings = [{"mechanism": one} for one in names if one != "d-bit-flip"]
        bits = [buckets] if sampled else [*powers, buckets]
        settings += [{"mechanism": "d-bit-flip", "bits": bit} for bit in bits]
    found = []
    for setting in settings:
        try:
            asked = [
                metrics_of(figure, shape, name, setting, Fraction(f"{epsilon:.6g}"), Fraction(1))
                for epsilon in epsilons
            ]
            found.append(_Variant(setting, tuple(asked)))
        except PlanError:  # not for so many buckets, or it needs what a design does not know
            if setting is settings[-1] and not found:
                raise
    return tuple(found)


def edges_of(figure: Figure, round_days: int) -> tuple[Fraction, ...]:
    """The edges of a histogram's buckets."""
    if figure.edges:
        return figure.edges
    count = figure.buckets or 2
    if figure.max_value is None and figure.spread is not None:
        return figure.spread.edges(round_days, count, figure.unit)
    top = (figure.max_value or Fraction(1)) * round_days
    return tuple(top * place / count for place in range(count + 1))


def is_apart(figure: Figure, shape: PlanShape) -> bool:
    """Whether a figure is a split that is asked as a mean for each label."""
    return shape.apart and figure.kind == "split"


def metrics_of(
    figure: Figure,
    shape: PlanShape,
    plan: str,
    settings: Settings,
    epsilon: Fraction,
    top: Fraction,
) -> Asked:
    """What a figure is asked by, as a plan that says so has it."""
    sampled = shape.window_days > 0
    edges = edges_of(figure, shape.round_days) if figure.kind == "histogram" else ()
    write = means_text if is_apart(figure, shape) else metric_text
    text = write(figure, top, edges, settings, epsilon, None if sampled else FLIP)
    window = '[answers]\nkind = "sampled"\nwindow = "7d"\n' if sampled else ""
    head = f'[plan]\nname = "{plan}"\nversion = 1\nround = "1d"\n'
    return Plan.from_toml(f"{head}{window}{text}").metrics


def plan_of(question: Question, shape: PlanShape, parts: Sequence[tuple[Figure, Asked]]) -> Plan:
    """The plan of a shape that asks each figure so."""
    groups = tuple(
        Group(figure.name, tuple(metric.name for metric in metrics), Fraction(metrics[0].max_value))
        for figure, metrics in parts
        if is_apart(figure, shape)
    )
    seconds = shape.round_days * DAY
    asked = shape.asked if shape.asked < len(parts) else None
    answers = Answers(shape.answers.window, asked)
    every = tuple(metric for _, metrics in parts for metric in metrics)
    return Plan(question.name, 1, seconds, max(7 * DAY, 3 * seconds), every, groups, answers=answers)


def ranges(figure: Figure, round_days: int) -> list[tuple[Fraction, float]]:
    """The ranges of a mean that are tried, and how much of the mean of a round each cuts off."""
    if figure.spread is None:
        return [((figure.max_value or Fraction(1)) * round_days, 0.0)]
    tops = figure.spread.ranges(round_days, figure.unit)
    if figure.max_value is not None:
        tops = [figure.max_value * round_days]
    return [(top, figure.spread.cut(round_days, top)) for top in tops]


@dataclass(frozen=True, eq=False)
class _Curve:
    """One metric by one mechanism, as epsilon grows: losses and half-widths, these as a part of its range."""

    settings: Settings
    epsilons: NDArray[np.float64]
    losses: NDArray[np.float64]
    parts: NDArray[np.float64]

    def loss(self, part: float) -> float:
        """The least loss for a half-width."""
        if part <= 0:
            return np.inf
        return float(np.exp(np.interp(-np.log(part), -np.log(self.parts), np.log(self.losses), right=np.inf)))

    def epsilon(self, loss: float) -> float:
        """The epsilon of a loss."""
        return float(np.exp(np.interp(np.log(loss), np.log(self.losses), np.log(self.epsilons))))

    def part(self, loss: float) -> float:
        """The half-width for a loss."""
        return float(np.exp(np.interp(np.log(loss), np.log(self.losses), np.log(self.parts), left=np.inf)))


@lru_cache(maxsize=4096)
def _curves(
    figure: Figure,
    name: str,
    shape: PlanShape,
    per: int,
    answering: int,
    confidence: float,
    life: float,
) -> tuple[_Curve, ...]:
    sampled = shape.window_days > 0
    found = []
    variants = _variants(figure, PlanShape(_days_of(figure, shape), 7 * sampled, 1, shape.apart), name)
    for settings, several in variants:
        metrics = [asked[0] for asked in several]
        sure = confidence_of_each(several[0], confidence)
        reports = max(1, answering * per // shape.window_days) if sampled else answering
        parts = np.array([expected_half_width(one, reports, sure) for one in metrics])
        alone = PlanShape(shape.round_days, shape.window_days, 1)
        parts *= _averaging(metrics[_POINTS * 3 // 4], alone, per, 1 << answering.bit_length(), sure)
        losses = np.array([_loss(asked, sampled, life) for asked in several])
        epsilons = np.array([float(one.mechanism.epsilon) for one in metrics])
        found.append(_Curve(settings, epsilons, losses, parts))
    return tuple(found)


def _days_of(figure: Figure, shape: PlanShape) -> int:
    """The days of a round where a figure's mechanism depends on them, else one."""
    return shape.round_days if figure.kind == "histogram" else 1


def confidence_of_each(asked: Asked, confidence: float) -> float:
    """Of several means, each so sure that all hold at once."""
    return 1 - (1 - confidence) / len(asked)


@lru_cache(maxsize=4096)
def _loss(asked: Asked, sampled: bool, life: float) -> float:
    """The loss of the promise; or so many times what the policy's limit for life is about, where that is more."""
    groups = (Group("one", tuple(metric.name for metric in asked), asked[0].max_value),)
    plan = Plan(
        "one", 1, DAY, DAY, asked, groups if len(asked) > 1 else (), answers=Answers(7 if sampled else 0)
    )
    promised = loss_of_plan(plan, "one" if sampled else "all")
    return max(promised, life * privacy_card(plan).lifetime) if life else promised


@lru_cache(maxsize=1024)
def _averaging(metric: Metric, shape: PlanShape, per: int, answering: int, confidence: float) -> float:
    """How much wider the average of a period is than one round with as many reports would be."""
    reports = max(1, answering * per // shape.window_days) if shape.window_days else answering
    if per == (shape.window_days or shape.round_days):
        return 1.0
    return _half_width(metric, shape, per, answering, confidence) / expected_half_width(
        metric, reports, confidence
    )


def _half_width(metric: Metric, shape: PlanShape, per: int, answering: int, confidence: float) -> float:
    """Of the period, at worst."""
    return expected_average_half_width(metric, answering, per // shape.round_days, confidence, shape.answers)


def answering(question: Question, shape: PlanShape) -> int:
    """How many devices answer a metric, in a round or in a window."""
    return max(1, question.reports * shape.asked // len(question.figures))


@dataclass
class _Draft:
    """A shape, and for each metric what it can be."""

    question: Question
    shape: PlanShape
    by_life: bool = False  #: The policy's limit for the life of a device decides, not the promise
    curves: list[tuple[_Curve, ...]] = field(default_factory=list)
    ranges: list[NDArray[np.float64]] = field(default_factory=list)
    tops: list[list[Fraction]] = field(default_factory=list)
    wider: dict[_Curve, float] = field(default_factory=dict)  #: Than a curve says, as seen near the best plan

    @property
    def life(self) -> float:
        """What a loss for life is multiplied by, to reach its limit when that of a report does; 0: it is left out."""
        return self.most() / (POLICY.max_lifetime or np.inf) if self.by_life else 0.0

    def __post_init__(self) -> None:
        asked = answering(self.question, self.shape)
        for figure in self.question.figures:
            self.curves.append(
                _curves(
                    figure,
                    self.question.name,
                    self.shape,
                    self.question.per,
                    asked,
                    self.question.confidence,
                    self.life,
                )
            )
            pairs = ranges(figure, self.shape.round_days) if figure.is_amount else [(Fraction(1), 0.0)]
            self.tops.append([top for top, _ in pairs])
            self.ranges.append(np.array([(float(top), cut) for top, cut in pairs]))
        self.wanted = [wanted(figure, self.shape.round_days) for figure in self.question.figures]

    def pick(self, place: int, factor: float) -> tuple[float, _Curve, int]:
        """The least loss of a metric for a goal that is so many times as wide, its mechanism and its range."""
        days = self.shape.round_days if self.question.figures[place].is_amount else 1
        tops, cuts = self.ranges[place].T
        parts = (factor * self.wanted[place] * days - cuts) / tops
        best = int(np.argmax(parts))
        curves = self.curves[place]
        loss, number = min(
            (curve.loss(float(parts[best]) / self.wider.get(curve, 1.0)), n) for n, curve in enumerate(curves)
        )
        return loss, curves[number], best

    def loss(self, factor: float) -> float:
        """The least loss of a report."""
        losses = sorted((self.pick(place, factor)[0] for place in range(len(self.wanted))), reverse=True)
        return sum(losses[: self.shape.asked])

    def promised(self, factor: float) -> float:
        """The least loss that the promise is about."""
        touched = 1
        if self.question.promise == "year":
            touched = self.shape.answers.windows_touched(-(-365 // self.shape.round_days))
        return self.loss(factor) * touched

    def most(self) -> float:
        """The most that a report may lose: by the promise, and by the policy."""
        question, window = self.question, self.shape.window_days
        limit = float(question.limit)
        policy = POLICY.max_window or np.inf
        if not window:
            return min(limit, (POLICY.max_lifetime or np.inf) / 2)
        touched = self.shape.answers.windows_touched(-(-365 // self.shape.round_days))
        of_year = (POLICY.max_year or np.inf) / (-(-(365 * DAY - 1) // (window * DAY)) + 1)
        return min(limit / touched if question.promise == "year" else limit, policy, of_year)

    def least_factor(self) -> float:
        """The least factor for the goals that is within the limit."""
        low, high = (float(np.log(one)) for one in _FACTORS)
        most = self.most()
        if self.loss(_FACTORS[1]) > most:
            return np.inf
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (low, middle) if self.loss(np.exp(middle)) <= most else (middle, high)
        return float(np.exp(high))

    def reaching(self) -> Proposal:
        """The plan that reaches every goal, with the least epsilons of three digits."""
        parts = []
        for place, figure in enumerate(self.question.figures):
            goal = float(figure.half_width or 0)
            loss, curve, best = self.pick(place, 1.0)
            epsilon = curve.epsilon(loss)
            for _ in range(2):  # what the curve only estimates is put right by what comes out
                part = self._part(place, curve, best, rounded_down(min(epsilon, float(curve.epsilons[-1]))))
                noise, aim = part.half_width - part.clipping, goal - part.clipping
                if not 0.99 < noise / aim < 1 or part.epsilon == next_rung(rounded_down(epsilon)):
                    epsilon = curve.epsilon(curve.loss(curve.part(self._loss_of(part)) * aim / noise))
            while part.half_width > goal and part.epsilon < curve.epsilons[-1]:
                part = self._part(place, curve, best, next_rung(part.epsilon))
            while (less := previous_rung(part.epsilon)) >= LEAST_EPSILON:
                smaller = self._part(place, curve, best, less)
                if smaller.half_width > goal:
                    break
                part = smaller
            parts.append(part)
        return self._proposal(parts)

    def narrowest(self) -> Proposal | None:
        """The plan with the least factor; what comes of a try puts the curves right for the next one."""
        found: list[Proposal] = []
        for _ in range(_TRIES):
            factor = self.least_factor()
            proposal = self._within_limits(factor)
            if proposal is None:
                break
            found.append(proposal)
            if proposal.factor <= 1.001 * factor:
                break
        return min(found, key=lambda one: one.factor, default=None)

    def _within_limits(self, factor: float) -> Proposal | None:
        """The plan for goals that are so many times as wide, with epsilons rounded down until it is allowed."""
        if factor == np.inf:
            return None
        picked = [self.pick(place, factor) for place in range(len(self.wanted))]
        epsilons = [
            rounded_down(min(curve.epsilon(loss) * (1 + 1e-4), float(curve.epsilons[-1])))
            for loss, curve, _ in picked
        ]
        for _ in range(_STEPS):
            metrics = [
                self._metrics(place, curve, best, epsilon)
                for place, ((_, curve, best), epsilon) in enumerate(zip(picked, epsilons, strict=True))
            ]
            if is_allowed(self.question, self._plan(metrics)):
                break
            largest = max(range(len(epsilons)), key=lambda place: (epsilons[place], -place))
            if epsilons[largest] <= LEAST_EPSILON:
                return None
            epsilons[largest] = previous_rung(epsilons[largest])
        else:
            return None
        parts = []
        for place, ((_, curve, best), epsilon) in enumerate(zip(picked, epsilons, strict=True)):
            part = self._part(place, curve, best, epsilon)
            days = self.shape.round_days if part.figure.is_amount else 1
            said = curve.part(self._loss_of(part)) * float(self.tops[place][best]) / days
            self.wider[curve] = (part.half_width - part.clipping) / said
            parts.append(part)
        return self._proposal(parts)

    def _metrics(self, place: int, curve: _Curve, best: int, epsilon: Fraction) -> Asked:
        figure, top = self.question.figures[place], self.tops[place][best]
        return metrics_of(figure, self.shape, self.question.name, curve.settings, epsilon, top)

    def _part(self, place: int, curve: _Curve, best: int, epsilon: Fraction) -> PlannedMetric:
        shape, question = self.shape, self.question
        figure, metrics = question.figures[place], self._metrics(place, curve, best, epsilon)
        count = answering(question, shape)
        days = shape.round_days if figure.is_amount else 1
        cut = float(self.ranges[place][best, 1])
        sure = confidence_of_each(metrics, question.confidence)
        noise = _half_width(metrics[0], shape, question.per, count, sure)
        of_round = expected_half_width(metrics[0], count, question.confidence)
        return PlannedMetric(figure, metrics, (noise + cut) / days, cut / days, of_round)

    def _plan(self, metrics: Sequence[Asked]) -> Plan:
        return plan_of(self.question, self.shape, list(zip(self.question.figures, metrics, strict=True)))

    def _proposal(self, parts: Sequence[PlannedMetric]) -> Proposal:
        return Proposal(self.question, self.shape, self._plan([part.metrics for part in parts]), tuple(parts))

    def _loss_of(self, part: PlannedMetric) -> float:
        return _loss(part.metrics, self.shape.window_days > 0, self.life)


def rounded_down(number: float) -> Fraction:
    """The largest number of three digits that is not above another."""
    rung = Fraction(f"{number:.2e}")
    return previous_rung(rung) if rung > number else rung


def next_rung(rung: Fraction) -> Fraction:
    """The next larger number of three digits."""
    return rung + _digit(rung)


def previous_rung(rung: Fraction) -> Fraction:
    """The next smaller number of three digits."""
    digit = _digit(rung)
    return rung - (digit / 10 if rung == 100 * digit else digit)


def _digit(rung: Fraction) -> Fraction:
    power = 0
    while rung >= 10:
        rung, power = rung / 10, power + 1
    while rung < 1:
        rung, power = rung * 10, power - 1
    return Fraction(10) ** (power - 2)


def proposals(question: Question) -> list[Proposal]:
    """
    The best plan of each shape, the best of all first.

    Where goals can be reached, the plans that do so at the least loss; otherwise those whose half-widths are the
    least times as wide. Shapes that a first estimate shows to be far from the best are left out.
    """
    drafts = _drafts(question)
    if all(figure.half_width is not None for figure in question.figures):
        enough = [(draft.promised(1.0), draft) for draft in drafts if draft.loss(1.0) <= 1.02 * draft.most()]
        reached = [draft.reaching() for draft in _near(enough)]
        reached = [proposal for proposal in reached if proposal.met and is_allowed(question, proposal.plan)]
        if reached:
            return _of_each_shape(sorted(reached, key=lambda one: one.rank(one.loss, one.factor)))
    possible = [(factor, draft) for draft in drafts if (factor := draft.least_factor()) < np.inf]
    narrow = [draft.narrowest() for draft in _near(possible)]
    allowed = [proposal for proposal in narrow if proposal is not None]
    return _of_each_shape(sorted(allowed, key=lambda one: one.rank(one.factor, one.loss)))


def estimate(question: Question) -> tuple[float, float]:
    """About how much wider than the goals the half-widths have to be, and the least loss that reaches the goals."""
    drafts = _drafts(question)
    losses = [draft.promised(1.0) for draft in drafts if draft.loss(1.0) <= draft.most()]
    return min(draft.least_factor() for draft in drafts), min(losses, default=np.inf)


def _drafts(question: Question) -> list[_Draft]:
    """Of every shape; of remembered answers also one that minds the policy's limit for life before the promise."""
    return [
        _Draft(question, shape, by_life)
        for shape in shapes(question)
        for by_life in ((False,) if shape.window_days else (False, True))
    ]


def _of_each_shape(ranked: Sequence[Proposal]) -> list[Proposal]:
    best: dict[PlanShape, Proposal] = {}
    for proposal in ranked:
        best.setdefault(proposal.shape, proposal)
    return list(best.values())


def _near(drafts: Sequence[tuple[float, _Draft]]) -> list[_Draft]:
    """Of either way to ask for splits, the drafts near the best one, and the best of three other windows and rounds."""
    kept: list[_Draft] = []
    ranked = sorted(drafts, key=lambda pair: pair[0])
    ways = {(draft.shape.apart, draft.by_life) for _, draft in ranked}
    for way in sorted(ways):
        of_way = [(figure, draft) for figure, draft in ranked if (draft.shape.apart, draft.by_life) == way]
        seen: set[tuple[int, int]] = set()
        for figure, draft in of_way:
            key = draft.shape.round_days, draft.shape.window_days
            if figure <= 1.02 * of_way[0][0] or (key not in seen and len(seen) < 4):
                kept.append(draft)
            seen.add(key)
    return kept
