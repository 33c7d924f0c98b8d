"""A small fleet in one process, answering with the code that runs on real devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b

from reticent.device import SecretDraws, answer
from reticent.plan import Plan
from reticent.reports import Report


class SdkFleet:
    """
    Devices without files or network: secrets, and the law by which a device answers.

    Their secrets come from a seed, so that a simulation can be repeated; a real device's never do.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> plan = Plan("demo", 1, 3600, 3600, (Metric("minutes", OneBitMean(1, 60)),))
    >>> fleet = SdkFleet(plan, devices=3, seed=1)
    >>> len(list(fleet.reports(7, {"minutes": [0, 30, 60]})))
    3
    """

    def __init__(
        self, plan: Plan, devices: int, seed: int, segments: Sequence[Mapping[str, str]] | None = None
    ) -> None:
        self.plan = plan
        self._segments = segments or [{}] * devices
        self._draws = [SecretDraws(_secret(seed, device), plan.name, epoch=0) for device in range(devices)]

    def __len__(self) -> int:
        return len(self._draws)

    def reports(self, round_number: int, values: Mapping[str, Sequence[object]]) -> Iterator[Report]:
        """What every device answers in a round; `values` has a list per metric, in the order of devices."""
        for device, draws in enumerate(self._draws):
            own = {name: column[device] for name, column in values.items()}
            yield answer(draws, self.plan, round_number, own, self._segments[device]).report


def _secret(seed: int, device: int) -> bytes:
    return blake2b(f"{seed}/{device}".encode(), digest_size=32).digest()
