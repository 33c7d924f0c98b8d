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
    earlier parameters goes back to the earlier memo and costs nothing more.
    """
    changes = tuple(_changes(before, after))
    return PlanDiff(changes, compose([change.loss for change in changes]))


def _changes(before: Plan, after: Plan) -> Iterator[Change]:
    for name in ("name", "version", "round_seconds", "grace_seconds", "owner", "expires"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield Change(f"plan.{name.removesuffix('_seconds')}", f"{_shown(old)} → {_shown(new)}")
    yield from _changes_of_metrics(before, after)
    if before.groups != after.groups:
        yield Change("groups", "joint limits have changed: values are clamped otherwise, memos stay")
    if before.segments != after.segments:
        yield Change("segments", "public tags have changed")
    if [metric.name for metric in before.metrics] != [metric.name for metric in after.metrics]:
        yield Change("metrics", "the order or number of bits in a report has changed")


def _changes_of_metrics(before: Plan, after: Plan) -> Iterator[Change]:
    for name in sorted(before.by_name.keys() - after.by_name.keys()):
        yield Change(f"metrics.{name}", "is no longer asked; what was lost stays lost")
    for metric in after.metrics:
        old = before.by_name.get(metric.name)
        full = losses(metric.mechanism, metric.flip).lifetime
        if old is None:
            yield Change(f"metrics.{metric.name}", "is new", new_memo=True, loss=full)
        elif old.digest != metric.digest:
            message = "has other privacy parameters: a new memo epoch"
            yield Change(f"metrics.{metric.name}", message, new_memo=True, loss=full)
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
