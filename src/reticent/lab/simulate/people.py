"""What the people in the data would give away: widths, patterns and losses over the rounds simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.plan import Metric
from reticent.privacy import loss_by_width, loss_of_constant_device
from reticent.privacy.patterns import Supports, supports


@dataclass(frozen=True)
class People:
    """
    How the devices' remembered answers changed over the rounds, for one metric.

    A device's *width* is how many different remembered answers it used; its *pattern* is when it changed from
    one to another. The loss of a width holds between devices of the same pattern. That a device shares
    its pattern with few others is itself something that is seen, unless flips hide it.
    """

    metric: Metric
    rounds: int
    supports: Supports
    """How many devices share each pattern."""

    @property
    def share_by_width(self) -> dict[int, float]:
        """The share of devices per width."""
        per_width = np.bincount(self.supports.widths, weights=self.supports.counts)
        return {
            width: float(number / self.supports.devices) for width, number in enumerate(per_width) if number
        }

    @property
    def loss_by_width(self) -> dict[int, float]:
        """What any number of rounds lose to a device of each width that occurs, between equal patterns."""
        return {width: loss_by_width(self.metric.mechanism, width) for width in self.share_by_width}

    @property
    def mean_loss(self) -> float:
        """The mean of `loss_by_width` over devices."""
        losses = self.loss_by_width
        return sum(share * losses[width] for width, share in self.share_by_width.items())

    @property
    def constant_loss(self) -> float:
        """What these rounds lose to a device that never changed."""
        return loss_of_constant_device(self.metric.mechanism, self.metric.flip, self.rounds)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "constant_share": self.supports.share_constant,
            "lonely_share": self.supports.share_lonely,
            "patterns": len(self.supports.counts),
            "largest_pattern": self.supports.largest,
            "share_by_width": self.share_by_width,
            "loss_by_width": self.loss_by_width,
            "mean_loss": self.mean_loss,
            "constant_loss": self.constant_loss,
        }


def people_of(metric: Metric, cells: NDArray[Any]) -> People:
    """The people behind remembered classes, one row per round."""
    return People(metric, len(cells), supports(cells.T))
