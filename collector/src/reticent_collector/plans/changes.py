"""What changes from one plan to the next, and what that costs the devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace

from reticent.losses import compose
from reticent.plan.metric import Metric
from reticent.plan.plan import Plan
from reticent_collector.privacy.card import PrivacyCard, duration, privacy_card

Figures = Mapping[str, tuple[float, float]]
"""The figures of a privacy card that differ, each before and after."""


@dataclass(frozen=True, slots=True)
class PlanChange:
    """One difference between two plans, and what it costs."""

    where: str
    message: str
    new_answers: tuple[str, ...] = ()  #: The metrics whose remembered answers are drawn again
    loss: float = 0.0  #: What those answers can add to the same-pattern loss
    figures: Figures = field(default_factory=dict)  #: Losses that differ, of the metric or the plan


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """All differences between two plans, and what they cost together."""

    changes: tuple[PlanChange, ...]
    figures: Figures  #: Which losses of the whole plan differ
    most_added: float  #: No device draws more new answers than those of the later plan that it is asked

    @property
    def new_answers(self) -> tuple[str, ...]:
        """The metrics whose remembered answers are drawn again."""
        return tuple(dict.fromkeys(name for change in self.changes for name in change.new_answers))

    @property
    def lifetime_added(self) -> float:
        """What the new answers can add to the same-pattern loss of a device that answered the earlier plan."""
        return min(compose([change.loss for change in self.changes]), self.most_added)

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return {
            "changes": [asdict(change) for change in self.changes],
            "figures": dict(self.figures),
            "new_answers": list(self.new_answers),
            "lifetime_added": self.lifetime_added,
        }


def diff(before: Plan, after: Plan) -> PlanDiff:
    """
    What changes from `before` to `after`.

    A metric whose privacy parameters change (range, step, epsilon, buckets, labels, mechanism, joint limit)
    gets new answers from every device: its same-pattern loss starts again from 0 and adds to the loss before.
    Going back to earlier parameters goes back to the earlier answers and costs nothing more. A plan with
    another name or another round length is another plan: all of its answers are new. Where answers are sampled
    nothing is remembered: each window costs the same, whatever the plan was before. Where a device answers some of
    the metrics, one that is added may take the place of another, and one that is removed leaves its place to another:
    their answers are new.
    """
    cards = privacy_card(before), privacy_card(after)
    changes = [*_of_plan(before, after, cards[1].lifetime), *_of_metrics(before, after, cards)]
    if before.groups != after.groups:
        changes.append(PlanChange("groups", "joint limits have changed", figures=_figures(*cards)))
    if before.segments != after.segments:
        changes.append(PlanChange("segments", "public tags have changed"))
    if list(before.by_name) != list(after.by_name):
        changes.append(PlanChange("metrics", "the order or number of bits in a report has changed"))
    return PlanDiff(tuple(changes), _figures(*cards), cards[1].lifetime)


def _of_plan(before: Plan, after: Plan, lifetime: float) -> Iterator[PlanChange]:
    redrawn, loss = ((), 0.0) if after.answers.sampled else (tuple(after.by_name), lifetime)
    if before.name != after.name:
        message = (
            f"{before.name} → {after.name}: another plan. It needs a state file of its own, in which every "
            "answer is drawn again"
        )
        yield PlanChange("plan.name", message, redrawn, loss)
        redrawn, loss = (), 0.0  # counted once, if the round differs too
    if before.round_seconds != after.round_seconds:
        lengths = f"{duration(before.round_seconds)} → {duration(after.round_seconds)}"
        message = (
            f"{lengths}: devices refuse another round under the same name. Under a new name, with a state "
            "file of its own, every answer is drawn again"
        )
        yield PlanChange("plan.round", message, redrawn, loss)
    yield from _words("plan", before, after, "version", "grace_seconds", "owner", "expires")
    if before.min_reports != after.min_reports:
        message = "the smallest group of reports that readers are shown; nothing changes for devices"
        yield PlanChange("min_reports", f"{before.min_reports} → {after.min_reports}: {message}")
    yield from _of_answers(before, after)
    if before.is_divided and not after.answers.sampled:
        yield from _of_division(before, after, lifetime)
    elif after.is_divided and not before.answers.sampled:
        message = "a device goes on with some of its answers, and the others are no longer asked"
        yield PlanChange(
            "answers.metrics", f"{before.asked} → {after.asked} of {len(after.metrics)}: {message}"
        )


def _of_answers(before: Plan, after: Plan) -> Iterator[PlanChange]:
    """Whether answers are remembered or sampled, and for how long."""
    old, new = before.answers, after.answers
    if not old.sampled and new.sampled:
        message = "one report per window, drawn afresh; what remembered answers have lost stays lost"
        yield PlanChange("answers.kind", f"remembered → sampled: {message}")
    elif old.sampled and not new.sampled:
        message = "devices draw answers to remember once their window has ended"
        yield PlanChange("answers.kind", f"sampled → remembered: {message}")
    elif old.window != new.window:
        message = "the same loss per window; a device changes over once its window has ended"
        yield PlanChange("answers.window", f"{old.window} → {new.window} rounds: {message}")
    if new.sampled and old.sampled and before.asked != after.asked:
        message = "metrics per report: another loss per window"
        yield PlanChange("answers.metrics", f"{before.asked} → {after.asked} {message}")


def _of_division(before: Plan, after: Plan, lifetime: float) -> Iterator[PlanChange]:
    """Metrics that the plan had and a device was not asked: it is, where more are asked or others are gone."""
    if before.asked < after.asked or before.by_name.keys() - after.by_name.keys():
        asks = f"{before.asked} of {len(before.metrics)} → {after.asked} of {len(after.metrics)}"
        known = tuple(name for name in after.by_name if name in before.by_name)
        message = "a device may be asked metrics that it was not asked before"
        yield PlanChange("answers.metrics", f"{asks}: {message}", known, lifetime)


def _of_metrics(before: Plan, after: Plan, cards: tuple[PrivacyCard, PrivacyCard]) -> Iterator[PlanChange]:
    is_another_plan = (before.name, before.round_seconds) != (after.name, after.round_seconds)
    sampled = after.answers.sampled
    for name in sorted(before.by_name.keys() - after.by_name.keys()):
        yield PlanChange(f"metrics.{name}", "is no longer asked; what was lost stays lost")
    for metric in after.metrics:
        where = f"metrics.{metric.name}"
        old = before.by_name.get(metric.name)
        now = cards[1].metrics[metric.name]
        redrawn, loss = ((), 0.0) if is_another_plan or sampled else ((metric.name,), now.lifetime)
        if old is None:
            yield PlanChange(where, "is new", redrawn, loss)
            continue
        figures = {} if sampled else _figures(cards[0].metrics[old.name], now)
        if sampled:
            if old.digest != metric.digest:
                yield PlanChange(where, "has other privacy parameters: another loss per window")
        elif why := _why_redrawn(old, metric, was_sampled=before.answers.sampled):
            shown = figures if _has_other_parameters(old, metric) else {}
            yield PlanChange(where, f"{why}: its answers are drawn again", redrawn, loss, shown)
        if old.flip != metric.flip:
            message = f"{old.flip.probability} → {metric.flip.probability}: the same remembered answers"
            if not metric.flip.probability:
                message += ", and nothing hides a change any more: the round of a change shows"
            yield PlanChange(f"{where}.flip", message, figures=figures)
        yield from _words(where, old, metric, "kind", "pick", "unit", "description")


def _has_other_parameters(old: Metric, new: Metric) -> bool:
    """Whether labels or privacy parameters differ, apart from a joint limit."""
    return replace(old, joint_limit=None).digest != replace(new, joint_limit=None).digest


def _why_redrawn(old: Metric, new: Metric, was_sampled: bool) -> str:
    """Why a remembered answer is drawn again; empty where it is not."""
    if _has_other_parameters(old, new):
        return f"has other {'labels' if (old.labels, old.parts) != (new.labels, new.parts) else 'privacy parameters'}"
    if old.joint_limit != new.joint_limit:
        return "shares another joint limit, so values are rounded otherwise"
    return "is remembered from now on" if was_sampled else ""


def _figures(before: object, after: object) -> dict[str, tuple[float, float]]:
    return {
        name: (old, getattr(after, name))
        for name in type(before).__dataclass_fields__  # type: ignore[attr-defined]
        if isinstance(old := getattr(before, name), float) and old != getattr(after, name)
    }


def _words(place: str, before: object, after: object, *names: str) -> Iterator[PlanChange]:
    for name in names:
        old, new = (
            "(none)" if value in ("", None) else value
            for value in (getattr(before, name), getattr(after, name))
        )
        if old != new:
            yield PlanChange(f"{place}.{name.removesuffix('_seconds')}", f"{old} → {new}")
