"""The privacy card of a plan: what answering it costs a device, exactly; and the plan in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

from reticent.claims import NOT_COVERED
from reticent.html import Safe, note, page, safe, table
from reticent.losses import compose, printed
from reticent_collector.privacy.claims import CLAIMS, MEANING
from reticent_collector.privacy.joint import OneOrAllRounds, loss_of_asked
from reticent_collector.privacy.loss import Losses, loss_per_round, losses
from reticent_collector.privacy.rounding import precise, upward

if TYPE_CHECKING:
    from reticent.plan import Group, Plan

LOSSES = tuple(field.name for field in fields(Losses))
"""The losses by the id of their claim, in the order of the columns."""

_YEAR_SECONDS = 365 * 86_400
_PARTS = {
    "mean": "steps",
    "choice": "labels",
    "split": "labels",
}  # what a scale is divided into, by kind of metric


@dataclass(frozen=True, slots=True)
class GroupLosses:
    """The joint losses of the metrics of a group: in one round, and for a device that never changes."""

    round: float
    constant: float


@dataclass(frozen=True, slots=True)
class PrivacyCard:
    """
    Losses (epsilon spent) of each metric and of the whole plan.

    What each figure compares, and over what, is in `reticent_collector.privacy.CLAIMS` under its name. `any_history` is
    for `rounds` rounds.
    """

    metrics: Mapping[str, Losses]
    groups: Mapping[str, GroupLosses]
    rounds: int
    time: str  #: How long `rounds` rounds are, in words
    round: float
    constant: float
    lifetime: float
    change_per_round: float
    any_history: float
    window: float | None = None  #: The loss of one window, between any two histories, if sampled
    windows: int | None = None  #: How many windows `rounds` rounds can touch, each with that loss

    @property
    def loss(self) -> Losses:
        """The five figures of the whole plan."""
        return Losses(self.round, self.constant, self.lifetime, self.change_per_round, self.any_history)

    @property
    def columns(self) -> Mapping[str, str]:
        """The claims that the card shows, by id, each with its column heading."""
        claims = LOSSES if self.window is None else ("window", "any_history")
        return {
            name: CLAIMS[name].title + (f", {self.time}" if name == "any_history" else "") for name in claims
        }

    def figures(self, losses: Losses | GroupLosses) -> list[str]:
        """A row of the card, rounded up: of a metric, a group (which has two figures) or the whole plan."""
        names = ("round" if name == "window" else name for name in self.columns)
        return [printed(getattr(losses, name)) if hasattr(losses, name) else "" for name in names]

    @property
    def scopes(self) -> list[tuple[str, str]]:
        """Each column heading, with whom its figure compares and over what."""
        return [(title, CLAIMS[name].scope(self.time)) for name, title in self.columns.items()]

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return asdict(self)


def privacy_card(plan: Plan, rounds: int | None = None) -> PrivacyCard:
    """
    What a plan costs a device; `rounds` is the length of any two histories, a year by default.

    Metrics are answered with independent randomness, so their losses add; those of a group with a joint limit
    lose less in a round than their sum. Over changing values there is no such discount. Where a device answers some
    of the metrics, each figure of the whole plan is the largest over all sets of so many.

    Where answers are sampled, each window loses `window` between any two histories, and histories that differ
    in one round differ in one window. Over all rounds without end there is no bound: windows add up.
    """
    if rounds is None:
        length = -(-_YEAR_SECONDS // plan.round_seconds)
        time = "1 year"
    else:
        length = rounds
        time = f"{length:,} {'round' if length == 1 else 'rounds'}"
    if plan.answers.sampled:
        return _sampled_card(plan, length, time)
    of_metric = {metric.name: losses(metric.mechanism, metric.flip, length) for metric in plan.metrics}
    of_group = {group.name: _group_losses(plan, group) for group in plan.groups}

    def largest(figure: str) -> float:
        """The largest sum of a figure over all sets of metrics that can be asked."""
        ordered = sorted((getattr(loss, figure) for loss in of_metric.values()), reverse=True)
        return compose(ordered[: plan.asked])

    round_loss = loss_of_plan(plan, "one")
    return PrivacyCard(
        metrics=of_metric,
        groups=of_group,
        rounds=length,
        time=time,
        round=round_loss,
        constant=loss_of_plan(plan, "all"),
        lifetime=largest("lifetime"),
        change_per_round=largest("change_per_round"),
        any_history=round_loss if length == 1 else largest("any_history"),
    )


def loss_of_plan(plan: Plan, rounds: OneOrAllRounds) -> float:
    """Of one report between any two values, or of all rounds of a device that never changes."""
    groups = [
        (tuple(plan.by_name[name].question for name in group.metrics), group.max_total)
        for group in plan.groups
    ]
    alone = [metric.question for metric in plan.metrics if metric.joint_limit is None]
    return loss_of_asked(alone, groups, plan.asked, rounds=rounds)


def _group_losses(plan: Plan, group: Group) -> GroupLosses:
    members = [(tuple(plan.by_name[name].question for name in group.metrics), group.max_total)]
    return GroupLosses(
        round=loss_of_asked([], members, plan.asked, rounds="one"),
        constant=loss_of_asked([], members, plan.asked, rounds="all"),
    )


def _sampled_card(plan: Plan, rounds: int, time: str) -> PrivacyCard:
    windows = plan.answers.windows_touched(rounds)

    def card(loss: float) -> Losses:
        return Losses(loss, inf, inf, loss, upward(windows * Fraction(loss)))  # `compose`, at once

    window = loss_of_plan(plan, "one")
    return PrivacyCard(
        metrics={metric.name: card(loss_per_round(metric.mechanism, metric.flip)) for metric in plan.metrics},
        groups={group.name: GroupLosses(_group_losses(plan, group).round, inf) for group in plan.groups},
        rounds=rounds,
        time=time,
        **vars(card(window)),
        window=window,
        windows=windows,
    )


@precise
def share(part: float) -> str:
    """
    A share for people, rounded up.

    >>> share(0.99052), share(0.00729), share(1.0)
    ('99.1 %', '0.73 %', '100 %')
    """
    percent = Decimal(part) * 100
    unit = Decimal("0.1") if percent >= 1 else Decimal("0.01")
    return f"{percent.quantize(unit, ROUND_CEILING).normalize():f} %"


def duration(seconds: int) -> str:
    """
    A length of time as a plan would write it.

    >>> [duration(seconds) for seconds in (21_600, 86_400, 90, 61)]
    ['6h', '1d', '90s', '61s']
    """
    for sign, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{sign}"
    return f"{seconds}s"


def plan_html(plan: Plan) -> Safe:
    """A plan in a notebook (`IPython.display.HTML` of it): a table of its metrics, and the privacy card."""
    report = f"one report of {plan.bits} {'bit' if plan.bits == 1 else 'bits'} every {duration(plan.round_seconds)}"
    rows = []
    for metric in plan.metrics:
        parts = len(metric.mechanism.points) - 1
        top = f"{_number(metric.max_value)} {metric.unit}".strip()
        divided = f", {parts} {_PARTS.get(metric.kind, 'buckets')}" if parts > 1 else ""
        epsilon = printed(float(metric.mechanism.epsilon))
        flip = f"{float(metric.flip.probability):g}"
        name = _under(metric.name, metric.description)
        range_ = metric.range_in_words(top)
        rows.append([name, metric.kind + divided, range_, metric.mechanism.title, epsilon, flip])
    asked = table(
        f"Plan {plan.name}, version {plan.version}: {report}",
        ["metric", "asks for", "range", "mechanism", "epsilon", "flip"],
        rows,
    )
    notes = [f"group {one.name}: {' + '.join(one.metrics)} ≤ {_number(one.max_total)}" for one in plan.groups]
    notes += [f"segment {one.name}, sent in the clear: {', '.join(one.tags)}" for one in plan.segments]
    terms = [f"late reports count for {duration(plan.grace_seconds)}"]
    terms += [f"readers are shown groups of at least {plan.min_reports:,} reports"]
    terms += [f"owner {plan.owner}"] if plan.owner else []
    terms += [f"expires {plan.expires.isoformat()}"] if plan.expires else []
    card = privacy_card(plan)
    losses = [[name, *card.figures(figures)] for name, figures in card.metrics.items()]
    losses += [[f"group {name}", *card.figures(figures)] for name, figures in card.groups.items()]
    cost = table(
        "Privacy loss (epsilon, rounded up)",
        ["", *card.columns.values()],
        losses,
        totals=[["whole plan", *card.figures(card.loss)]],
    )
    scopes = "; ".join(f"{title}: {scope}" for title, scope in card.scopes)
    about = note(f"{MEANING} {scopes}. {NOT_COVERED}")
    return page(asked, *map(note, [*notes, "; ".join(terms)]), cost, about)


def _under(name: object, more: object) -> Safe:
    """A name with a line of small print below, if there is any."""
    small = f'<br><small style="font-weight:normal">{safe(more)}</small>' if more else ""
    return Safe(safe(name) + small)


def _number(number: int | Fraction) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{float(number):,.6g}"
