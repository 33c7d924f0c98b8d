"""What every store asks of a plan before it keeps it, and says of the ones it has."""

from __future__ import annotations

from functools import lru_cache

from reticent.errors import PlanError, StoreError
from reticent.plan import Plan
from reticent.stores.records import RoundKey


def require_text(place: str, plan: Plan) -> None:
    """A plan is kept as the text it was read from."""
    if not plan.text or Plan.from_toml(plan.text) != plan:
        raise StoreError(
            f"{place}: plan {plan.name} version {plan.version} cannot be kept without its plan.toml.\n"
            "  Hint: read it with Plan.load or Plan.from_toml"
        )


def require_same(place: str, plan: Plan, kept: Plan) -> None:
    """Under one version there is one plan."""
    if kept != plan:
        raise StoreError(
            f"{place}: plan {plan.name} version {plan.version} is known with other content.\n"
            "  Hint: raise the version; what devices were asked must not change under it"
        )


def kept_plan(place: str, text: str) -> Plan:
    """The plan of a kept text."""
    try:
        return _read(text)
    except PlanError as error:
        raise StoreError(f"{place}: holds a plan that cannot be read: {error}") from error


def not_registered(place: str, key: RoundKey) -> StoreError:
    """For a round of a plan that nobody registered."""
    return StoreError(f"{place}: plan {key.plan} version {key.version} is not registered")


@lru_cache(maxsize=256)
def _read(text: str) -> Plan:
    """Read once: what a store keeps never changes under a version."""
    return Plan.from_toml(text)
