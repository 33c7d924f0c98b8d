"""What changes from one version of a plan to the next, and what it costs the devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from reticent.plan.plan import Plan
from reticent.privacy import compose, losses


@dataclass(frozen=True, slots=True)
class Change:
    """
    One difference between two plans.

    `new_memo`: devices draw their remembered answers anew, so up to `loss` more is lost for life.
    """

    where: str
    message: str
    new_memo: bool = False
    loss: float = 0.0


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """All differences, and the loss for life that they add."""

    changes: tuple[Change, ...]
    lifetime_added: float

    @property
    def new_memos(self) -> tuple[str, ...]:
        """The metrics whose remembered answers are drawn anew."""
        return tuple(change.where.removeprefix("metrics.") for change in self.changes if change.new_memo)

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return {**asdict(self), "new_memos": list(self.new_memos)}


def diff(before: Plan, after: Plan) -> PlanDiff:
    """
    What changes from `before` to `after`.

    A metric whose privacy parameters change (range, step, epsilon, buckets, mechanism) gets a fresh memo on
    every device: its loss for life starts again from nothing and adds to what was lost before. Going back to
    earlier parameters goes back to the earlier memo and costs nothing more. Where answers are sampled there
    is no memo: each window costs the same, whatever the plan was before.
    """
    changes = tuple(_changes(before, after))
    return PlanDiff(changes, compose([change.loss for change in changes]))


def _changes(before: Plan, after: Plan) -> Iterator[Change]:
    for name in ("name", "version", "round_seconds", "grace_seconds", "owner", "expires"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield Change(f"plan.{name.removesuffix('_seconds')}", f"{_shown(old)} → {_shown(new)}")
    yield from _changes_of_answers(before, after)
    yield from _changes_of_metrics(before, after)
    if before.groups != after.groups:
        yield Change("groups", "joint limits have changed: values are clamped otherwise, memos stay")
    if before.segments != after.segments:
        yield Change("segments", "public tags have changed")
    if [metric.name for metric in before.metrics] != [metric.name for metric in after.metrics]:
        yield Change("metrics", "the order or number of bits in a report has changed")


def _changes_of_answers(before: Plan, after: Plan) -> Iterator[Change]:
    old, new = before.answers, after.answers
    if not old.sampled and new.sampled:
        message = "one report per window, drawn afresh; what remembered answers have lost stays lost"
        yield Change("answers.kind", f"remembered → sampled: {message}")
    elif old.sampled and not new.sampled:
        message = "devices draw answers to remember once their window has ended"
        yield Change("answers.kind", f"sampled → remembered: {message}")
    elif old.window != new.window:
        message = "the same loss per window; a device changes over once its window has ended"
        yield Change("answers.window", f"{old.window} → {new.window} rounds: {message}")
    if old.sampled and new.sampled and before.asked != after.asked:
        message = "metrics per report: another loss per window"
        yield Change("answers.metrics", f"{before.asked} → {after.asked} {message}")


def _changes_of_metrics(before: Plan, after: Plan) -> Iterator[Change]:
    for name in sorted(before.by_name.keys() - after.by_name.keys()):
        yield Change(f"metrics.{name}", "is no longer asked; what was lost stays lost")
    for metric in after.metrics:
        old = before.by_name.get(metric.name)
        where, sampled = f"metrics.{metric.name}", after.answers.sampled
        full = 0.0 if sampled else losses(metric.mechanism, metric.flip).lifetime
        if old is None:
            yield Change(where, "is new", new_memo=not sampled, loss=full)
        elif sampled and old.digest != metric.digest:
            yield Change(where, "has other privacy parameters: another loss per window")
        elif old.digest != metric.digest:
            yield Change(where, "has other privacy parameters: a new memo epoch", new_memo=True, loss=full)
        elif before.answers.sampled and not sampled:
            yield Change(where, "is remembered from now on: a new memo epoch", new_memo=True, loss=full)
        if old is None:
            continue
        if old.flip != metric.flip:
            change = f"{old.flip.probability} → {metric.flip.probability}"
            yield Change(f"metrics.{metric.name}.flip", f"{change}: same memo, other loss per round")
        for name in ("unit", "description"):
            was, now = getattr(old, name), getattr(metric, name)
            if was != now:
                yield Change(f"metrics.{metric.name}.{name}", f"{_shown(was)} → {_shown(now)}")


def _shown(value: object) -> str:
    return str(value) if value not in ("", None) else "(none)"
