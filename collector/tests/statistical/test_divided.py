"""
Plans that ask a device for some of the metrics: figures of the whole fleet, from those who were asked.

Each day a fleet of its own answers the rounds of that day, so days are repetitions. Its reports go into a store and the
figures are read as readers read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from math import tanh

import numpy as np
import pytest
from scipy.stats import binom, chi2

from reticent.plan import Plan
from reticent_collector.estimates import HistogramEstimate
from reticent_collector.results import Results, Selection
from reticent_collector.stores import Layout, RoundKey, Store, open_store
from reticent_lab.fleet import VectorisedFleet

TEXT = """
min_reports = 1
[plan]
name = "divided"
version = 1
round = "12h"
[answers]
metrics = 1
[metrics.minutes]
kind = "mean"
max_value = 60
epsilon = 2.0
flip = 0.1
[metrics.delay]
kind = "histogram"
max_value = 4
buckets = 4
mechanism = "d-bit-flip"
bits = 2
epsilon = 4.0
[metrics.theme]
kind = "choice"
labels = ["light", "dark"]
mechanism = "hadamard-bit"
epsilon = 3.0
"""
DAYS, DEVICES, FIRST = 300, 60, 40_000
FALSE_ALARM = 1e-6
VALUES = {
    "minutes": np.arange(DEVICES) % 4 // 3 * 60,
    "delay": np.minimum(np.arange(DEVICES) % 7, 3),
    "theme": np.arange(DEVICES) % 5 // 2 - 1,
}
TRUTHS = {"minutes": [15.0]} | {
    name: (np.bincount(VALUES[name] % buckets, minlength=buckets) / DEVICES).tolist()
    for name, buckets in (("delay", 4), ("theme", 3))  # the last bucket of a choice is "absent", -1 here
}


def filled(store: Store, plan: Plan) -> None:
    store.register(plan)
    layout = Layout(plan)
    for day in range(DAYS):
        fleet = VectorisedFleet(plan, DEVICES, seed=day)
        for number in (FIRST + 2 * day, FIRST + 2 * day + 1):
            key = RoundKey(plan.name, plan.version, number)
            store.append({key: b"".join(map(layout.pack, fleet.reports(number, VALUES)))})
            store.seal(key)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with closing(open_store("memory:")) as opened:
        filled(opened, Plan.from_toml(TEXT))
        yield opened


@pytest.mark.parametrize("every", ["round", "day"])
@pytest.mark.parametrize("metric", VALUES)
def test_intervals_of_those_who_were_asked_cover_the_whole_fleet(
    store: Store, metric: str, every: str
) -> None:
    """Figures of 95 %: so many days miss with a chance of at most 1e-6 if each misses with one of 5 %."""
    figures = Results(store).estimates(Selection("divided", metric, every=every, last=2 * DAYS))
    missed = {
        (result.round - FIRST) // 2
        for result in figures
        if not all(
            part.lower <= truth <= part.upper
            for part, truth in zip(parts(result.estimate), TRUTHS[metric], strict=True)
        )
    }
    assert len(figures) == DAYS * (2 if every == "round" else 1)
    most = 0.05 if every == "day" else 0.1  # either of two rounds may miss
    assert len(missed) <= binom.isf(FALSE_ALARM, DAYS, most)


def parts(estimate: object) -> list:
    return list(estimate.buckets) if isinstance(estimate, HistogramEstimate) else [estimate]


def test_a_mean_has_the_variance_of_a_share_of_the_devices(store: Store) -> None:
    """
    m² (coth²(ε/2)/(1-2γ)² - 1 + 4 h (1-h)) / 4n, n those who were asked, for values of 0 or m and a share h of m.

    The last term is that of devices drawn with replacement: here up to 0.75 of 1.99 is a third too large.
    """
    figures = Results(store).estimates(Selection("divided", "minutes", every="round", last=2 * DAYS))
    values = np.array([result.estimate.value for result in figures if result.round % 2 == 0])
    answered = np.array([result.estimate.reports for result in figures if result.round % 2 == 0])
    noise = 1 / (tanh(1.0) * 0.8) ** 2 - 1
    variances = 60**2 * (noise + 4 * 0.25 * 0.75) / 4 / answered
    statistic = ((values - 15) ** 2 / variances).sum()
    assert answered.sum() == pytest.approx(DAYS * DEVICES / 3, abs=6 * np.sqrt(DAYS * DEVICES * 2 / 9))
    assert statistic < chi2.isf(FALSE_ALARM, DAYS)
    assert statistic > chi2.ppf(FALSE_ALARM, DAYS) * (1 - 0.75 / 1.99 / 3)
