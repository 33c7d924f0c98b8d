"""
At one promise for the whole plan, all metrics against some of them: variances on recordings of real usage.

    python -m benchmarks promise FOLDER      a folder with gran_turismo_sport_daily_seconds.csv.gz

Every metric has the values of other people of one recording. Plans lose 1 in all: a device that never changes, or a
week between any two histories. Each pair is drawn in one run, with the same people; the error is two standard errors
of the repetitions, and the ratio that is expected is that of the formulas at the values there are. For splits the
seconds are scaled so that they share a day.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from reticent.mechanisms import Buckets, Flip, Mechanism, OneBitMean, SubsetSelection
from reticent.plan import Answers, Group, Metric, Plan
from reticent_collector.estimates import expected_variance
from reticent_collector.privacy.card import privacy_card
from reticent_lab.crowd import Crowd, CrowdDraws
from reticent_lab.fleet import read_values
from reticent_lab.simulate import true_values

DAY = 86_400
DEVICES = 200_000
PEOPLE = 500
FLIP = Flip("1/5")
TAU = {3: "0.4723", 10: "0.450", 20: "0.446"}
"""ε of t counters with a joint limit that lose 1 together."""

BATCHES = 20

Values = Mapping[str, NDArray[np.int64]]
Floats = NDArray[np.float64]


def means(count: int, epsilon: str, flip: Flip, answers: Answers, *, limit: bool = False) -> Plan:
    """A plan of so many means of seconds a day."""
    metrics = tuple(Metric(f"app_{number}", OneBitMean(epsilon, DAY), flip) for number in range(count))
    groups = (Group("apps", tuple(metric.name for metric in metrics), DAY),) if limit else ()
    return Plan("promise", 1, DAY, DAY, metrics, groups, answers=answers)


def split(count: int) -> Plan:
    """The same as one split, sampled."""
    labels = tuple(f"app_{number}" for number in range(count))
    mechanism: Mechanism = SubsetSelection(1, Buckets(range(count + 1), absent=True))
    metric = Metric("apps", mechanism, parts=labels, max_total=DAY)
    return Plan("promise", 1, DAY, DAY, (metric,), answers=Answers(window=1))


def drawn_and_expected(plan: Plan, values: Values, repetitions: int) -> tuple[Floats, float]:
    """Estimates by repetition and number, and the mean variance that the formulas expect."""
    names = list(plan.recorded)
    given = {name: values[name.rpartition("/")[2]] for name in names}
    crowd = Crowd.of({name: column[None] for name, column in given.items()}, devices=DEVICES)
    truths = true_values(plan, given)
    drawn = CrowdDraws(plan, crowd, seed=1).draw(repetitions)
    seen, expected = [], []
    for metric in plan.metrics:
        numbers = []
        for of_repetition in drawn:
            tallies = of_repetition[metric.name]
            hits, reports = metric.mechanism.hits(tallies.reports[0], tallies.ones[0])
            numbers.append(metric.top * metric.channel.truth(hits / reports))
        count = len(metric.parts) or 1
        seen.append(np.array(numbers).reshape(repetitions, -1)[:, :count])
        for place, truth in enumerate(truths[metric.name][:count]):
            asked = DEVICES * plan.asked // len(plan.metrics)
            # These people are the same in every repetition: what they differ by is only in who of them is asked.
            own = spread_of(metric, given, place, float(truth)) * asked / DEVICES
            expected.append(expected_variance(metric, asked, float(truth), own))
    return np.concatenate(seen, axis=1), fmean(expected)


def ratio_of(before: Floats, after: Floats) -> tuple[float, float]:
    """The ratio of the mean variances, and its error: twice the standard error over batches of the repetitions."""
    old, new = (estimates - estimates.mean(axis=0) for estimates in (before, after))
    ratios = [
        float((one**2).mean() / (other**2).mean())
        for one, other in zip(np.array_split(old, BATCHES), np.array_split(new, BATCHES), strict=True)
    ]
    ratio = float((old**2).mean() / (new**2).mean())
    return ratio, 2 * ratio * float(np.log(ratios).std(ddof=1)) / BATCHES**0.5


def spread_of(metric: Metric, values: Values, place: int, truth: float) -> float:
    """The variance of the people's own values, which the answers of a fixed crowd do not have."""
    column = values[metric.recorded[place]].astype(float)
    return min(float(column.var()), truth * (metric.top - truth))


def main() -> None:
    """Print a line for each number of metrics and way to answer."""
    parser = argparse.ArgumentParser(description="Variances at one promise, on recordings.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repetitions", type=int, default=1500)
    given = parser.parse_args()
    recorded = read_values(given.folder / "gran_turismo_sport_daily_seconds.csv.gz", DAY)
    people = recorded.values(PEOPLE * 20, 1, np.random.default_rng(1))[0].reshape(20, PEOPLE).astype(np.int64)
    for count in (3, 10, 20):
        values = {f"app_{number}": people[number] for number in range(count)}
        weekly = Answers(window=1)
        pairs = {
            "remembered": (
                means(count, f"1/{count}", FLIP, Answers()),
                means(count, "1", FLIP, Answers(metrics=1)),
            ),
            "sampled": (
                means(count, f"1/{count}", Flip(0), weekly),
                means(count, "1", Flip(0), Answers(window=1, metrics=1)),
            ),
            "split": (means(count, TAU[count], Flip(0), weekly, limit=True), split(count)),
        }
        for name, (before, after) in pairs.items():
            (old, old_due), (new, new_due) = (
                drawn_and_expected(plan, values, given.repetitions) for plan in (before, after)
            )
            ratio, error = ratio_of(old, new)
            losses = [round(float(card.constant if name == "remembered" else card.round), 3)
                      for card in map(privacy_card, (before, after))]  # fmt: skip
            print(
                f"{count:2} metrics, {name:10}  loss {losses[0]:.3f} and {losses[1]:.3f}   variance ratio "
                f"{ratio:6.2f} ± {error:.2f}, expected {old_due / new_due:6.2f}"
            )


if __name__ == "__main__":
    main()
