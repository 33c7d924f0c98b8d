"""Every claim of a plan's privacy card, beside the loss that enumeration finds."""

from __future__ import annotations

from collections.abc import Iterator

from reticent.lab.audit.exact import loss_of_constant, loss_of_switch, representatives, row_sets
from reticent.lab.audit.figures import Enumerated, enumerated, total
from reticent.lab.audit.joint import MOST_COUNTERS, worst_pair
from reticent.lab.audit.widths import loss_of_width, widths_of
from reticent.plan import Metric, Plan
from reticent.plan.card import privacy_card
from reticent.privacy import loss_by_width, loss_of_constant_device
from reticent.privacy import loss_of_switch as claim_of_switch

REMEMBERED = "remembered answer"
ONE_ROUND = "one round"
SWITCHED = "switched, not constant"
STAYED = "constant, not switched"


def constant_over(rounds: int) -> str:
    """What a device that never changes is called over `rounds`."""
    return f"constant, {rounds} rounds"


def enumerate_plan(plan: Plan, rounds: int) -> list[Enumerated]:
    """
    Exact losses of every metric, group and of the whole plan, each beside its claim.

    Per metric: the remembered answer alone (claim: ε, as the plan has it); one round; `rounds` rounds of a
    device that never changes; one that switches after half of them against one that never does, both
    directions; devices of one behaviour pattern, by width. Per group: the worst pair of vectors within the
    limit, in one round and for remembered answers, which is all rounds of a device that never changes.
    """
    card = privacy_card(plan)
    results = [found for metric in plan.metrics for found in _metric(metric, rounds)]
    grouped = {name for group in plan.groups for name in group.metrics}
    alone = [metric for metric in plan.metrics if metric.name not in grouped]
    losses = {
        flips: [
            loss_of_constant(metric.mechanism, metric.flip.threshold if flips else 0, 1).logarithm
            for metric in alone
        ]
        for flips in (True, False)
    }
    for group in plan.groups:
        claims = card.groups[group.name]
        for flips, what, claim in (
            (True, ONE_ROUND, claims.round),
            (False, "constant, all rounds", claims.constant),
        ):
            found = worst_pair(plan, group, flips=flips).ratio
            losses[flips].append(found.logarithm)
            answers = "all" if len(group.metrics) <= MOST_COUNTERS else "every number of ones in the"
            over = f"{answers} answers, corners and even spreads of the limit"
            results.append(enumerated(f"group {group.name}", what, claim, found, over))
    together = "losses of metrics and groups, added"
    results.append(enumerated("whole plan", ONE_ROUND, card.round, total(losses[True]), together))
    results.append(
        enumerated("whole plan", "constant, all rounds", card.constant, total(losses[False]), together)
    )
    return results


def _metric(metric: Metric, rounds: int) -> Iterator[Enumerated]:
    mechanism, flip, name = metric.mechanism, metric.flip, metric.name
    classes = f"all pairs of {mechanism.classes} classes"
    memo = loss_of_constant(mechanism, 0, 1)
    yield enumerated(name, REMEMBERED, mechanism.epsilon, memo, f"{classes}, all answers")
    for count, what in ((1, ONE_ROUND), (rounds, constant_over(rounds))):
        if count > 1 or what == ONE_ROUND:
            claim = loss_of_constant_device(mechanism, flip, count)
            found = loss_of_constant(mechanism, flip.threshold, count)
            yield enumerated(name, what, claim, found, f"{classes}, all sequences of answers")
    if rounds > 1:
        before, after = halves(rounds)
        claims = claim_of_switch(mechanism, flip, before, after)
        up, down = loss_of_switch(mechanism, flip.threshold, before, after)
        over = f"all triples of {_tried(metric)} classes, all sequences of {before} + {after} answers"
        yield enumerated(name, SWITCHED, claims.switched_over_constant, up, over)
        yield enumerated(name, STAYED, claims.constant_over_switched, down, over)
    for width in widths_of(mechanism):
        claim = loss_by_width(mechanism, width)
        found = loss_of_width(mechanism, width)
        yield enumerated(name, same_pattern(width), claim, found, f"the best pairing of {width}")


def same_pattern(width: int) -> str:
    """What two devices of one behaviour pattern are called."""
    return f"same pattern, width {width}"


def halves(rounds: int) -> tuple[int, int]:
    """Rounds before and after a switch."""
    return rounds // 2, rounds - rounds // 2


def _tried(metric: Metric) -> int:
    """How many classes take part in the triples."""
    mechanism = metric.mechanism
    if mechanism.bits == 1:
        return mechanism.classes
    return max(len(representatives(rows)) for rows in row_sets(mechanism))
