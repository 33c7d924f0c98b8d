"""Every claim of a plan's privacy card beside the loss that enumeration finds, and what must hold of its integers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, pairwise, product
from math import prod

from reticent.mechanisms import SCALE, Mechanism, SubsetSelection
from reticent.plan import Group, Metric, Plan
from reticent_collector.privacy import loss_by_width, loss_of_constant_device
from reticent_collector.privacy import loss_of_switch as claim_of_switch
from reticent_collector.privacy.card import privacy_card
from reticent_lab.audit.exact import (
    Enumerated,
    Ratio,
    enumerated,
    exact_loss_of_switch,
    loss_of_constant,
    loss_of_width,
    representatives,
    row_sets,
    rows_of,
    total,
    widths_of,
)

_DIGITS = Context(prec=90)


@dataclass(frozen=True, slots=True)
class AuditCheck:
    """Something that must hold, and whether it does; None when it could not be looked at."""

    subject: str
    what: str
    holds: bool | None
    detail: str = ""


def check_structure(plan: Plan) -> list[AuditCheck]:
    """
    The integers of every metric.

    - no threshold is below ⌈2⁶⁴/(e^h + 1)⌉ or above its mirror image, h the exponent of one bit (90 digits);
    - a mean's thresholds never fall from one cell to the next, and the two ends mirror each other;
    - γ·2⁶⁴ is rounded up, and stays below one half;
    - every cohort is asked as much as every other;
    - for subset selection instead, that its weights are within their privacy bound.
    """
    checks: list[AuditCheck] = []
    for metric in plan.metrics:
        mechanism = metric.mechanism
        flip = metric.flip
        name = metric.name
        if isinstance(mechanism, SubsetSelection):
            checks.append(_check_weights(name, mechanism))
            continue
        low = least_threshold(mechanism.response.epsilon)
        used = {one for rows in row_sets(mechanism) for row in rows for one in row}
        private = low <= min(used) and max(used) <= SCALE - low
        turned = flip.probability * SCALE <= flip.threshold < SCALE // 2
        checks += [
            AuditCheck(
                name,
                "every threshold is within its privacy bound",
                private,
                f"{len(used)} thresholds from {low}",
            ),
            AuditCheck(name, "the flip is rounded up, below one half", turned, f"{flip.threshold} of 2^64"),
        ]
        if mechanism.kind == "mean":
            cells = [row[0] for row in rows_of(mechanism)]
            rise = all(a <= b for a, b in pairwise(cells)) and cells[0] + cells[-1] == SCALE
            checks.append(AuditCheck(name, "thresholds rise from cell to cell", rise, f"{len(cells)} cells"))
        else:
            kinds = len(row_sets(mechanism))
            checks.append(AuditCheck(name, "every cohort is asked equally", kinds == 1, f"{kinds} kind(s)"))
    return checks


def _check_weights(name: str, mechanism: SubsetSelection) -> AuditCheck:
    """No outer weight is below 2⁶⁴/(ω e^ε + k - ω), and the inner ones fit beside them: so a ≤ e^ε b."""
    epsilon = mechanism.epsilon
    odds = _DIGITS.exp(_DIGITS.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    outer = mechanism.bits - mechanism.size
    whole = mechanism.outside * (mechanism.size * Fraction(odds) + outer)
    private = whole >= SCALE and 0 <= mechanism.rest < mechanism.size
    detail = f"{mechanism.size} of {mechanism.inside} and {outer} of {mechanism.outside}"
    return AuditCheck(name, "both weights are within their privacy bound", private, detail)


def least_threshold(exponent: Fraction) -> int:
    """
    ⌈2⁶⁴ / (e^h + 1)⌉, with 90 digits.

    >>> least_threshold(Fraction(1))
    4961093570831980854
    """
    odds = _DIGITS.exp(_DIGITS.divide(Decimal(exponent.numerator), Decimal(exponent.denominator)))
    quotient = _DIGITS.divide(Decimal(SCALE), _DIGITS.add(odds, Decimal(1)))
    return int(quotient.to_integral_value(rounding=ROUND_CEILING))


MOST_COUNTERS = 7
"""Most counters for which every output is tried with every candidate; beyond, those of alike counters."""

Value = int | Fraction
Vector = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class JointPair:
    """The two vectors and the answers that tell most, of those tried."""

    likelier: Vector
    rarer: Vector
    answers: tuple[int, ...]
    ratio: Ratio


def worst_pair(plan: Plan, group: Group, *, flips: bool) -> JointPair:
    """
    The largest ratio over pairs of vectors within the limit, and all answers.

    Tried are all corners of { 0 ≤ x_i ≤ m_i, Σ x_i ≤ M } and all even spreads of the limit over some counters.
    For equal counters that is the largest of all pairs: for every answer the best numerator is an even spread
    (concave) and the best denominator a corner (convex). For counters that differ it is attained, and may not be
    the largest.
    """
    members = [plan.by_name[name] for name in group.metrics]
    points = list(_points(members, Fraction(group.max_total)))
    whole = SCALE**3
    chances = [  # that each counter answers 1, over `whole`
        [_chance_of_one(member, value, flips) for member, value in zip(members, point, strict=True)]
        for point in points
    ]
    worst: JointPair | None = None
    many = len(members)
    outputs: Iterable[tuple[int, ...]] = product((0, 1), repeat=many)
    if many > MOST_COUNTERS:  # those with the ones last
        outputs = ((0,) * (many - ones) + (1,) * ones for ones in range(many + 1))
    for answers in outputs:
        laws = [
            prod(one if answer else whole - one for one, answer in zip(vector, answers, strict=True))
            for vector in chances
        ]
        best, least = max(laws), min(laws)
        pair = JointPair(points[laws.index(best)], points[laws.index(least)], answers, Ratio(best, least))
        if worst is None or worst.ratio < pair.ratio:
            worst = pair
    if worst is None:
        raise ValueError(group.name)
    return worst


def _chance_of_one(metric: Metric, value: Value, flips: bool) -> int:
    """The chance that a counter answers 1, over 2¹⁹²."""
    one = remembered(metric.mechanism, value)
    turn = metric.flip.threshold if flips else 0
    return one * (SCALE - turn) + (SCALE**2 - one) * turn


def _points(members: Sequence[Metric], limit: Fraction) -> Iterator[Vector]:
    """Corners and even spreads; of many counters, only the first or last of each number of them."""
    tops = [Fraction(member.max_value) for member in members]
    places = range(len(members))
    yield (Fraction(0),) * len(members)
    for size in range(len(members) + 1):
        chosen_sets: list[tuple[int, ...]]
        if len(members) <= MOST_COUNTERS:
            chosen_sets = list(combinations(places, size))
        else:
            chosen_sets = [tuple(places[:size]), tuple(places[len(members) - size :])]
        for chosen in chosen_sets:
            if chosen:  # the limit spread evenly over them
                share = limit / len(chosen)
                yield tuple(min(top, share) if i in chosen else Fraction(0) for i, top in enumerate(tops))
            yield from _corners(tops, chosen, limit)


def _corners(tops: Sequence[Fraction], chosen: tuple[int, ...], limit: Fraction) -> Iterator[Vector]:
    """The chosen counters full, and one other with what the limit leaves; none where they exceed it."""
    rest = limit - sum(tops[place] for place in chosen)
    if rest < 0:
        return
    full = [top if place in chosen else Fraction(0) for place, top in enumerate(tops)]
    others = [place for place in range(len(tops)) if place not in chosen][:MOST_COUNTERS]
    if not others:
        yield tuple(full)
    for other in others:
        yield *full[:other], min(tops[other], rest), *full[other + 1 :]


@lru_cache(maxsize=4096)
def remembered(mechanism: Mechanism, value: Value) -> int:
    """
    The chance that the first bit remembered for a value is 1, over alphas and draws, over 2¹²⁸.

    At most two cells are within reach; how many of the 2⁶⁴ alphas lead to each is found by bisection on
    `memo_class`.
    """
    first = mechanism.memo_class(value, 0, 0)
    last = mechanism.memo_class(value, SCALE - 1, 0)
    below = 0
    above = SCALE
    if first != last:
        above = SCALE - 1
        while above - below > 1:
            middle = (below + above) // 2
            if mechanism.memo_class(value, middle, 0) == first:
                below = middle
            else:
                above = middle
    ones = mechanism.thresholds(first, 0)[0], mechanism.thresholds(last, 0)[0]
    return above * ones[0] + (SCALE - above) * ones[1]


REMEMBERED = "remembered answer"
ONE_ROUND = "one round"
ALL_ROUNDS = "constant, all rounds"
ONE_WINDOW, TWO_WINDOWS = "any two histories, one window", "any two histories, two windows"
SHORT = 2
"""Rounds of most histories, and of the shortest that change: so few tell most about ε for their reports."""


def constant_over(rounds: int) -> str:
    """What a device that never changes is called over `rounds`."""
    return f"constant, {rounds} rounds"


def switched_over(rounds: int) -> tuple[str, str]:
    """What a device is called that switches after half of the rounds, and what one that might have."""
    return f"switched, not constant, {rounds} rounds", f"constant, not switched, {rounds} rounds"


def enumerate_plan(plan: Plan, rounds: int) -> list[Enumerated]:
    """
    Exact losses of every metric, of every group and of the whole plan, each beside its claim.

    Per metric: the remembered answer; one, two and `rounds` rounds of a constant device; a switch half-way
    against none; devices of one pattern, by width. Per group: the worst pair of vectors, in one round and for
    remembered answers, of as many members as a device is asked. The whole plan: the worst set of metrics.
    """
    card = privacy_card(plan)
    results = [loss for metric in plan.metrics for loss in losses_of_metric(metric, rounds)]
    alone = [metric for metric in plan.metrics if metric.joint_limit is None]
    parts = {
        flips: [
            [
                Decimal(0),
                loss_of_constant(metric.mechanism, metric.flip.threshold if flips else 0, 1).logarithm,
            ]
            for metric in alone
        ]
        for flips in (True, False)
    }
    for group in plan.groups:
        claims = card.groups[group.name]
        for flips, what, claim in ((True, ONE_ROUND, claims.round), (False, ALL_ROUNDS, claims.constant)):
            by_size = losses_by_size(plan, group, flips=flips)
            parts[flips].append(by_size)
            answers = "all" if len(group.metrics) <= MOST_COUNTERS else "every number of ones in the"
            over = f"{answers} answers, corners and even spreads of the limit"
            results.append(enumerated(f"group {group.name}", what, claim, by_size[-1], over))
    together = "losses of metrics and groups, added"
    if plan.is_divided:
        together += f", of the worst set of {plan.asked} metrics"
    for flips, what, claim in ((True, ONE_ROUND, card.round), (False, ALL_ROUNDS, card.constant)):
        results.append(
            enumerated("whole plan", what, claim, largest_over_sets(parts[flips], plan.asked), together)
        )
    return results


def losses_by_size(plan: Plan, group: Group, *, flips: bool) -> list[Decimal]:
    """The loss of the worst 0, 1, … members of a group, as many as a report can answer."""
    by_size = [Decimal(0)]
    most = min(plan.asked, len(group.metrics))
    for size in range(1, most + 1) if plan.asked_bytes else [most]:
        subsets = list(combinations(group.metrics, size))
        if len(group.metrics) > MOST_COUNTERS:
            ordered = sorted(group.metrics, key=lambda name: -plan.by_name[name].mechanism.epsilon)
            subsets = [tuple(ordered[:size])]
        unlike = {tuple(plan.by_name[name].question for name in subset): subset for subset in subsets}
        worst = max(
            worst_pair(plan, Group("", subset, group.max_total), flips=flips).ratio
            for subset in unlike.values()
        )
        by_size.append(max(by_size[-1], worst.logarithm))
    return by_size


def largest_over_sets(parts: Sequence[Sequence[Decimal]], asked: int) -> Decimal:
    """The largest sum over all sets of so many metrics; a part has the loss of its worst 0, 1, … members."""
    best = {0: Decimal(0)}
    for part in parts:
        sums = [
            (size + more, total([loss, part[more]]))
            for size, loss in best.items()
            for more in range(len(part))
        ]
        best = {size: max(loss for other, loss in sums if other == size) for size, _ in sums if size <= asked}
    return max(best.values())


def losses_of_metric(metric: Metric, rounds: int) -> Iterator[Enumerated]:
    """Every loss of one metric by itself, each beside its claim."""
    mechanism = metric.mechanism
    flip = metric.flip
    name = metric.name
    classes = f"all pairs of {mechanism.classes} classes"
    memo = loss_of_constant(mechanism, 0, 1)
    yield enumerated(name, REMEMBERED, mechanism.epsilon, memo, f"{classes}, all answers")
    lengths = sorted({length for length in (1, SHORT, rounds) if length <= rounds})
    for length in lengths:
        claim = loss_of_constant_device(mechanism, flip, length)
        ratio = loss_of_constant(mechanism, flip.threshold, length)
        what = ONE_ROUND if length == 1 else constant_over(length)
        yield enumerated(name, what, claim, ratio, f"{classes}, all sequences of answers")
    tried = mechanism.classes
    if mechanism.bits > 1:
        tried = max(len(representatives(rows)) for rows in row_sets(mechanism))
    for length in lengths[1:]:
        before = length // 2
        after = length - length // 2
        claims = claim_of_switch(mechanism, flip, before, after)
        ratios = exact_loss_of_switch(mechanism, flip.threshold, before, after)
        over = f"all triples of {tried} classes, all sequences of {before} + {after} answers"
        limits = claims.switched_over_constant, claims.constant_over_switched
        for what, limit, ratio in zip(switched_over(length), limits, ratios, strict=True):
            yield enumerated(name, what, limit, ratio, over)
    for width in widths_of(mechanism):
        claim = loss_by_width(mechanism, width)
        ratio = loss_of_width(mechanism, width)
        yield enumerated(name, same_pattern(width), claim, ratio, f"the best pairing of {width}")


def same_pattern(width: int) -> str:
    """What two devices of one behaviour pattern are called."""
    return f"same pattern, width {width}"
