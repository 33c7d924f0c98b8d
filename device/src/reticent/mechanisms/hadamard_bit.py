"""The Hadamard bit: one noisy bit about a value's bucket that says something about every bucket."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from reticent.errors import ParameterError
from reticent.frozen import freeze, frozen
from reticent.mechanisms.grids import Buckets, Grid
from reticent.mechanisms.mechanism import COHORTS, MECHANISMS, Mechanism, MetricTable
from reticent.mechanisms.response import SCALE, Channel, Flip, Number, RandomizedResponse

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray


def hadamard_sign(row: Any, column: Any) -> Any:
    """
    H[row, column] of the Sylvester matrix, for numbers and arrays below 256.

    >>> [[hadamard_sign(row, column) for column in range(4)] for row in range(4)]
    [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]
    """
    return 1 - 2 * _parity(row & column)


def _parity(number: Any) -> Any:
    number = number ^ (number >> 4)
    number = number ^ (number >> 2)
    number = number ^ (number >> 1)
    return number & 1


def walsh_hadamard(signal: NDArray[np.int64]) -> NDArray[np.int64]:
    """
    H · signal for the Sylvester matrix H, along the first axis; its length is a power of two.

    >>> import numpy as np
    >>> walsh_hadamard(np.array([1, 0, 0, 2])).tolist()
    [3, -1, -1, 3]
    """
    import numpy as np

    result = np.array(signal, dtype=np.int64)
    shape = result.shape
    half = 1
    while half < len(result):
        pairs = result.reshape(-1, 2, half, *shape[1:])
        result = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1).reshape(shape)
        half *= 2
    return result


@frozen()
class HadamardBit(Mechanism):
    """
    One noisy bit about the side of a public line that a bucket falls on.

    The device's cohort names a row *r* of the K × K Hadamard matrix, K the least power of two above the
    number of buckets. Its value's bucket *v* is on the side H[r, v+1] = ±1 (column 0 is left out: it is
    all ones), and randomized response with the whole ε answers whether that side is +1. Two remembered
    answers, hence at most 2ε between devices of one pattern; even with ε = ∞ only one bit of the bucket is revealed.

    Every report says something about every bucket, so n·Var is about coth²(ε/2) whatever the number of
    buckets, where dBitFlip pays a factor k/d.

    >>> HadamardBit(epsilon=1, buckets=Buckets.even(24, 32)).size
    64
    """

    buckets: Buckets
    response: RandomizedResponse
    size: int

    def __init__(self, epsilon: Number, buckets: Buckets) -> None:
        size = 1 << len(buckets).bit_length()
        if size > COHORTS:
            raise ParameterError(
                "buckets",
                f"at most {COHORTS - 1} for hadamard-bit (a row must fit the one-byte cohort)",
                len(buckets),
            )
        freeze(self, buckets=buckets, response=RandomizedResponse(epsilon), size=size)

    name = "hadamard-bit"
    kind = "histogram"
    grid = None
    classes = 2
    uses_cohort = True
    rows_are_buckets = False

    @classmethod
    def from_table(
        cls, table: MetricTable, epsilon: Fraction | None, scale: Grid | Buckets | None, label: str
    ) -> HadamardBit | None:
        """On the buckets of the plan's table."""
        return cls(epsilon, scale) if epsilon and isinstance(scale, Buckets) else None

    @property
    def parameters(self) -> list[object]:
        """The coin and the edges."""
        return [self.name, str(self.response.low), [str(edge) for edge in self.buckets.edges]]

    @property
    def exported(self) -> Mapping[str, object]:
        """The coin and the edges."""
        return {
            "low": str(self.response.low),
            "edges": [str(edge) for edge in self.buckets.edges],
        }

    @property
    def alternative(self) -> Mechanism | None:
        """The same with one bit of dBitFlip."""
        d_bit_flip: Any = MECHANISMS["d-bit-flip"]
        rival: Mechanism = d_bit_flip(self.epsilon, self.buckets, 1)
        return rival

    def row_name(self, row: int) -> str:
        """A row is no bucket here."""
        return f"row {row} of the Hadamard matrix"

    @property
    def row_count(self) -> int:
        """K, the size of the matrix."""
        return self.size

    def rows_of(self, cohort: int) -> tuple[int, ...]:
        """The one row that a device of this cohort answers about; K divides 256, so rows are equally likely."""
        return (cohort % self.size,)

    def probability_of_one(self, bucket: Any, row: Any) -> Any:
        """The chance of a 1 from a device of this row when the value is in `bucket` (numbers or arrays)."""
        contrast = 1 - 2 * self.response.low / SCALE
        return (1 + contrast * hadamard_sign(row, bucket + 1)) / 2

    def bucket_class(self, bucket: Any, cohort: Any) -> Any:
        """0 on the side of +1, 1 on that of -1; bucket + 1 < K, so the cohort's own bits are those of its row."""
        return _parity((bucket + 1) & cohort)

    def thresholds(self, memo_class: int, cohort: int = 0) -> tuple[int, ...]:
        """What the answer bit's draw is compared with."""
        return (self.response.low if memo_class else self.response.high,)

    def hits(self, reports: ArrayLike, ones: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """
        Per bucket, how many reports agree with its column, (n + W_v)/2, among all n.

        W_v = Σ_r H[r, v+1] · (2 · ones_r - reports_r) is the number of reports whose bit agrees with column v +
        1 in their row, less the number of those that do not. A device agrees with probability 1/2 + contrast/2
        when its value is in bucket v and 1/2 otherwise, since its row is uniform and columns are orthogonal; so
        W_v/n/contrast is unbiased for the bucket's share and the agreements are a plain count of independent
        coins, for which Clopper-Pearson is exact.

        Dividing row by row by the reports of that row (the ratio estimator) would have n·Var = c² - Σ_u h_u² in
        place of c² - h_v²: at best an eighth off the half-width of light buckets, for rows that may be empty
        and an interval that is no longer exact.
        """
        import numpy as np

        answers = np.array(reports, dtype=np.int64)
        devices = answers.sum(axis=0)
        transform = walsh_hadamard(2 * np.array(ones, dtype=np.int64) - answers)
        agreeing: NDArray[np.int64] = (devices + transform[1 : len(self.buckets) + 1]) // 2
        return agreeing, np.broadcast_to(devices, agreeing.shape)

    def channel(self, flip: Flip) -> Channel:
        """
        A hit is a bit that agrees with the bucket's column.

        Devices in other buckets agree half of the time, since rows are uniform and columns orthogonal, so low =
        1/2 and high = (1 + contrast)/2.
        """
        return Channel(Fraction(1, 2), (1 + flip.channel(self.response).contrast) / 2)

    def variances(self, flip: Flip, truth: Any) -> tuple[Any, Any]:
        """Noise and sampling of n·Var = (c² - t) + t(1 - t) = c² - t²."""
        contrast = float(flip.channel(self.response).contrast)
        return contrast**-2 - truth, truth * (1 - truth)

    def yes(self) -> NDArray[np.float64]:
        """[row, bucket]: 1 on the side of +1, 0 on the side of -1."""
        import numpy as np

        signs = hadamard_sign(np.arange(self.size)[:, None], np.arange(len(self.buckets))[None, :] + 1)
        return np.asarray((1 + signs) / 2)

    @property
    def paper_response(self) -> RandomizedResponse:
        """It is not in the paper; the paper's bound for one bit is that of 1BitFlip, h = ε/2."""
        return RandomizedResponse(self.epsilon / 2)
