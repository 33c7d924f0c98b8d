"""dBitFlip: a few noisy bits about which bucket a value is in."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from reticent.errors import ParameterError
from reticent.mechanisms.buckets import Buckets
from reticent.mechanisms.cohort import COHORTS, bucket_window, coverage
from reticent.mechanisms.exact import SCALE, Number
from reticent.mechanisms.response import RandomizedResponse

Variant = Literal["tight", "paper"]


@dataclass(frozen=True, slots=True, init=False)
class DBitFlip:
    """
    *d* noisy bits, one for each of *d* sampled buckets out of *k* (§2.2).

    A device whose value is in bucket *v* answers, for each of its buckets *j*, 1 with probability

        e^h / (e^h + 1)   if v = j,          1 / (e^h + 1)   otherwise.

    `variant="paper"`: h = ε/2 for every d, and one remembered response per bucket, as printed.
    `variant="tight"`: for d = 1 only one bit can differ, so h = ε already is ε-LDP and has at least four
    times less variance; for d ≥ 2, h = ε/2 as printed. One remembered response per *class* (each sampled
    bucket, and "none of them"), so that moves between buckets that are not asked about leave no trace.

    Both are ε-LDP per round given the cohort, which is public and independent of the value.

    >>> DBitFlip(epsilon=1, buckets=Buckets.even(24, 32), width=4).response.epsilon
    Fraction(1, 2)
    >>> DBitFlip(epsilon=1, buckets=Buckets.even(24, 32), width=1).response.epsilon
    Fraction(1, 1)
    """

    epsilon: Fraction
    buckets: Buckets
    width: int
    variant: Variant
    label: str
    response: RandomizedResponse = field(init=False, repr=False)

    def __init__(
        self,
        epsilon: Number,
        buckets: Buckets,
        width: int,
        variant: Variant = "tight",
        label: str = "",
    ) -> None:
        if not 1 <= width <= len(buckets):
            raise ParameterError("bits", f"a whole number from 1 to {len(buckets)}", width)
        if len(buckets) > COHORTS:
            raise ParameterError("buckets", f"at most {COHORTS}", len(buckets))
        if variant not in ("tight", "paper"):
            raise ParameterError("variant", '"tight" or "paper"', repr(variant))
        parameter = RandomizedResponse(epsilon).epsilon
        full = variant == "tight" and width == 1
        object.__setattr__(self, "epsilon", parameter)
        object.__setattr__(self, "buckets", buckets)
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "variant", variant)
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "response", RandomizedResponse(parameter if full else parameter / 2))

    @property
    def bits(self) -> int:
        """Answer bits per report: d."""
        return self.width

    @property
    def uses_cohort(self) -> bool:
        """Whether the cohort says which buckets a device answers about (not when it answers about all)."""
        return self.width < len(self.buckets)

    @property
    def max_value(self) -> int | Fraction:
        """The top of the range."""
        return self.buckets.max_value

    @property
    def classes(self) -> int:
        """How many responses a device may ever have to remember."""
        if self.variant == "paper" or not self.uses_cohort:
            return len(self.buckets)
        return self.width + 1

    @property
    def coverage(self) -> tuple[float, ...]:
        """Per bucket, the expected share of devices that answer about it."""
        return coverage(self.label, len(self.buckets), self.width)

    def window(self, cohort: int) -> tuple[int, ...]:
        """The buckets a device of this cohort answers about, in the order of its bits."""
        if not self.uses_cohort:
            return tuple(range(len(self.buckets)))
        return bucket_window(self.label, len(self.buckets), self.width, cohort)

    def probability_of_one(self, bucket: Any, asked: Any) -> Any:
        """The chance of a 1 about bucket `asked` when the value is in `bucket` (numbers or arrays)."""
        low = self.response.low / SCALE
        return low + (bucket == asked) * (1 - 2 * low)

    def memo_class(self, value: int | Fraction, alpha: int, cohort: int) -> int:
        """Which remembered response `value` calls for: its bucket (paper), or its place in the window."""
        bucket = self.buckets.index(value)
        if self.variant == "paper" or not self.uses_cohort:
            return bucket
        window = self.window(cohort)
        return window.index(bucket) if bucket in window else self.width

    def thresholds(self, memo_class: int, cohort: int) -> tuple[int, ...]:
        """What each answer bit's draw is compared with."""
        low, high = self.response.low, self.response.high
        if self.variant == "paper" and self.uses_cohort:
            return tuple(high if asked == memo_class else low for asked in self.window(cohort))
        return tuple(high if position == memo_class else low for position in range(self.width))
