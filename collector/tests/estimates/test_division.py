"""What a plan gains where a device answers some of its metrics, at the same loss: by the closed form."""

from __future__ import annotations

from fractions import Fraction

import pytest

from reticent.plan import Plan
from reticent_collector.estimates import best_division

GAINS = {
    1: "1:1.78 1:2.61 1:3.45 1:4.30 1:6.85 1:8.56 1:12.8 1:17.1",
    2: "1:1.36 1:1.87 1:2.42 1:2.98 1:4.69 1:5.84 1:8.73 1:11.6",
    4: "-      2:1.14 2:1.36 2:1.61 2:2.42 2:2.98 2:4.40 2:5.84",
    8: "-      -      -      4:1.05 4:1.36 4:1.61 4:2.28 4:2.98",
}
"""
coth²(E/2t) / ((t/k) coth²(E/2k)) by the loss E and the metrics t = 2, 3, 4, 5, 8, 10, 15, 20, with the best k.

An epsilon of a metric is at most 2, which devices take by default.
"""


@pytest.mark.parametrize("loss", GAINS)
def test_the_best_number_of_metrics_and_its_gain_in_variance(loss: int) -> None:
    for count, cell in zip((2, 3, 4, 5, 8, 10, 15, 20), GAINS[loss].split(), strict=True):
        text = '[plan]\nname = "p"\nversion = 1\nround = "1d"\n' + "".join(
            f'[metrics.m{place}]\nkind = "mean"\nmax_value = 10\nepsilon = "{Fraction(loss, count)}"\nflip = 0.2\n'
            for place in range(count)
        )
        division = best_division(Plan.from_toml(text), devices=10**9)
        if cell == "-":
            assert division is None
            continue
        assert division is not None
        asked, gain = cell.split(":")
        decimals = len(gain.partition(".")[2])
        assert division.metrics == int(asked)
        assert division.narrower**2 == pytest.approx(float(gain), abs=0.6 * 10**-decimals)
