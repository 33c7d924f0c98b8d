"""dBitFlip: a few noisy bits about which bucket a value is in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from reticent.errors import ParameterError
from reticent.frozen import freeze, frozen
from reticent.hashes import sha256
from reticent.mechanisms.grids import Buckets, Grid
from reticent.mechanisms.mechanism import COHORTS, MECHANISMS, Measured, Mechanism, MetricTable
from reticent.mechanisms.response import SCALE, Number, RandomizedResponse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Variant = Literal["tight", "paper"]


@frozen("response")
class DBitFlip(Mechanism):
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
    response: RandomizedResponse

    def __init__(
        self, epsilon: Number, buckets: Buckets, width: int, variant: Variant = "tight", label: str = ""
    ) -> None:
        if not 1 <= width <= len(buckets):
            raise ParameterError("bits", f"a whole number from 1 to {len(buckets)}", width)
        if len(buckets) > COHORTS:
            raise ParameterError("buckets", f"at most {COHORTS}", len(buckets))
        if variant not in ("tight", "paper"):
            raise ParameterError("variant", '"tight" or "paper"', repr(variant))
        parameter = RandomizedResponse(epsilon).epsilon
        response = RandomizedResponse(parameter if variant == "tight" and width == 1 else parameter / 2)
        freeze(
            self,
            epsilon=parameter,
            buckets=buckets,
            width=width,
            variant=variant,
            label=label,
            response=response,
        )

    name = "d-bit-flip"
    kind = "histogram"
    keys = ("bits", "variant")
    grid = None

    @classmethod
    def from_table(
        cls, table: MetricTable, epsilon: Fraction | None, scale: Grid | Buckets | None, label: str
    ) -> DBitFlip | None:
        """On the buckets of the plan's table, with its `bits` (1) and `variant` ("tight")."""
        width = table.integer("bits", 1, COHORTS) if "bits" in table else 1
        variant = table.choice("variant", ["tight", "paper"], default="tight")
        if epsilon and isinstance(scale, Buckets) and width and variant:
            return cls(epsilon, scale, width, "paper" if variant == "paper" else "tight", label)
        return None

    @property
    def settings(self) -> Mapping[str, str | int]:
        """The name and the bits, and the variant where it is not the usual one."""
        usual: dict[str, str | int] = {"mechanism": self.name, "bits": self.width}
        return usual if self.variant == "tight" else {**usual, "variant": self.variant}

    @property
    def parameters(self) -> list[object]:
        """The variant, the coin, the edges, the bits, and the label that shuffles the buckets."""
        edges = [str(edge) for edge in self.buckets.edges]
        return [self.name, self.variant, str(self.response.low), edges, self.width, self.label]

    @property
    def exported(self) -> Mapping[str, object]:
        """The coin, the edges, the variant, and all buckets in the order in which windows go through them."""
        return {
            "low": str(self.response.low),
            "edges": [str(edge) for edge in self.buckets.edges],
            "variant": self.variant,
            "label": self.label,
            "order": bucket_window(self.label, len(self.buckets), len(self.buckets), 0),
        }

    def warnings(self) -> Iterator[tuple[str, str, str, str]]:
        """The paper's variant, several bits, and buckets that fewer devices are asked about than others."""
        if self.variant == "paper":
            yield (
                "variant",
                "paper-variant",
                "is the mechanism as printed: it remembers every bucket, and one bit gets half the epsilon.",
                '"tight" spends the whole epsilon on one bit and remembers fewer answers',
            )
        if self.width > 1:
            yield (
                "bits",
                "many-bits",
                f"is {self.width}: values that move about have a same-pattern loss of {self.width} epsilon.",
                'mechanism = "hadamard-bit" has a same-pattern loss of 2 epsilon',
            )
        if max(self.coverage) > 1.25 * min(self.coverage):
            yield (
                "buckets",
                "uneven-coverage",
                "are covered by unequal shares of devices, so their intervals differ.",
                "a number of buckets that divides 256 is covered evenly",
            )

    @property
    def alternative(self) -> Mechanism | None:
        """The same with a Hadamard bit, where it has a row for every bucket."""
        if len(self.buckets) >= COHORTS:
            return None
        hadamard_bit: Any = MECHANISMS["hadamard-bit"]
        rival: Mechanism = hadamard_bit(self.epsilon, self.buckets)
        return rival

    @property
    def title(self) -> str:
        """The name, the bits and the variant."""
        return f"{self.name}, {self.width} {'bit' if self.width == 1 else 'bits'}, {self.variant}"

    @property
    def bits(self) -> int:
        """Answer bits per report: d."""
        return self.width

    @property
    def uses_cohort(self) -> bool:
        """Whether the cohort says which buckets a device answers about (not when it answers about all)."""
        return self.width < len(self.buckets)

    @property
    def classes(self) -> int:
        """How many responses a device may ever have to remember."""
        if self.variant == "paper" or not self.uses_cohort:
            return len(self.buckets)
        return self.width + 1

    def rows_of(self, cohort: int) -> tuple[int, ...]:
        """The window of buckets that a device of this cohort answers about, in the order of its bits."""
        if not self.uses_cohort:
            return tuple(range(len(self.buckets)))
        return bucket_window(self.label, len(self.buckets), self.width, cohort)

    def probability_of_one(self, bucket: Any, asked: Any) -> Any:
        """The chance of a 1 about bucket `asked` when the value is in `bucket` (numbers or arrays)."""
        low = self.response.low / SCALE
        return low + (bucket == asked) * (1 - 2 * low)

    def bucket_class(self, bucket: Any, cohort: Any) -> Any:
        """Which remembered response a bucket calls for: itself (paper), or its place in the window."""
        if self.variant == "paper" or not self.uses_cohort:
            return bucket
        if isinstance(bucket, int):
            window = self.rows_of(cohort)
            return window.index(bucket) if bucket in window else self.width
        import numpy as np

        slots = cohort.astype(np.intp)
        slots *= len(self.buckets)
        slots += bucket
        return np.take(_places(self.label, len(self.buckets), self.width), slots, mode="clip")

    def thresholds(self, memo_class: int, cohort: int) -> tuple[int, ...]:
        """What each answer bit's draw is compared with."""
        low, high = self.response.low, self.response.high
        if self.variant == "paper" and self.uses_cohort:
            return tuple(high if asked == memo_class else low for asked in self.rows_of(cohort))
        return tuple(high if position == memo_class else low for position in range(self.width))

    @property
    def thresholds_vary(self) -> bool:
        """In the paper's variant a class is a bucket, whose place among the bits the cohort decides."""
        return self.variant == "paper" and self.uses_cohort

    def changed_bits(self, width: int) -> int:
        """Each visit to a bucket changes one bit of either device, and a pattern has each bucket once."""
        return 2 * min(width, self.width) if self.width >= 2 else min(width, 2)

    def extremes(self, cohort: int) -> tuple[Measured, Measured] | None:
        """Two values: in the first two buckets of its window, or one inside and one outside."""
        window = self.rows_of(cohort)
        outside = next((bucket for bucket in range(len(self.buckets)) if bucket not in window), None)
        second = window[1] if len(window) > 1 else outside
        return None if second is None else (self.buckets.value_in(window[0]), self.buckets.value_in(second))


@lru_cache(maxsize=64)
def _places(label: str, buckets: int, width: int) -> NDArray[np.uint8]:
    import numpy as np

    table = np.full((COHORTS, buckets), width, dtype=np.uint8)
    for cohort, row in enumerate(table):
        row[list(bucket_window(label, buckets, width, cohort))] = range(width)
    return table.reshape(-1)


@lru_cache(maxsize=4096)
def bucket_window(label: str, buckets: int, width: int, cohort: int) -> tuple[int, ...]:
    """
    The `width` buckets that a device of this cohort answers about, out of `buckets`.

    The buckets are shuffled once, in public: bucket *i* is sorted by SHA-256("label/i"). The cohort picks where
    in that circle the window starts, ⌊cohort · buckets / 256⌋.
    """
    order = _shuffle(label, buckets)
    start = cohort * buckets // COHORTS
    return tuple(order[(start + offset) % buckets] for offset in range(width))


@lru_cache(maxsize=256)
def _shuffle(label: str, buckets: int) -> tuple[int, ...]:
    return tuple(sorted(range(buckets), key=lambda bucket: sha256(f"{label}/{bucket}".encode()).digest()))
