"""One metric in one round, over the versions of a plan that devices held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np

from reticent.errors import ParameterError
from reticent.plan import Answers, Metric, Plan
from reticent_collector.counts import Counts
from reticent_collector.estimates.convex_order import Steady, average_interval
from reticent_collector.estimates.estimator import (
    Estimate,
    HistogramEstimate,
    counted,
    estimate,
    estimates,
    shares,
)
from reticent_collector.estimates.interval import check_confidence, reach
from reticent_collector.estimates.pooling import REMEMBERED


@dataclass(frozen=True, slots=True)
class VersionCounts:
    """The counts of a metric in one round, or one window of sampled answers, under one version of a plan."""

    metric: Metric
    counts: Counts
    devices: int  #: All reports of the version, also those that are not about the metric
    answers: Answers = REMEMBERED  #: The plan's way of answering
    metrics: int = 1  #: How many metrics the version has

    @property
    def share_asked(self) -> float:
        """The share of its reports that are about the metric, by the plan."""
        asked = self.answers.metrics
        return 1.0 if asked is None else min(asked / self.metrics, 1.0)

    def adds_to(self, other: VersionCounts) -> bool:
        """
        Whether their counts may be added: a report means the same in both, and weighs the same.

        The digest leaves out the flip, so that is compared by itself.
        """
        return (
            question(self.metric) == question(other.metric)
            and self.answers.window == other.answers.window
            and self.share_asked == other.share_asked
        )


def question(metric: Metric) -> tuple[object, ...]:
    """
    What a report about a metric means: counts of versions add where this and the `rhythm` of the plans are equal.

    The digest leaves out the flip, the unit, and whether a mean of zeros and ones is a flag.
    """
    return metric.name, metric.digest, metric.flip, metric.unit, metric.kind


def rhythm(plan: Plan) -> tuple[object, ...]:
    """When a device answers, and how much a report weighs: rounds, windows, and the share of metrics asked."""
    return plan.round_seconds, plan.answers.window, Fraction(plan.asked, len(plan.metrics))


def over_versions(
    versions: Sequence[VersionCounts], confidence: float = 0.95
) -> Estimate | HistogramEstimate:
    """
    The estimate of one metric in one round over all versions of a plan.

    *Where counts may be added* (same name, digest, flip, window and share of metrics asked), they are: each device
    sends one report under one version, so the sum is one of unlike coins about the mean over all reports, and
    Clopper-Pearson is exact (*clopper-pearson*). Such sums also serve as rounds of `average` and `difference`.

    *Otherwise* versions are strata (*stratified*). With D_v all reports of version v, D their sum, w_v = D_v/D, and
    S_v hits among the n_v reports about the metric, seen through a channel with low_v and contrast c_v,

        value = Σ w_v (S_v/n_v - low_v)/c_v,

    the mean over devices, where a sum would weigh a device by the share asked. The weighted share of hits
    Σ (w_v/c_v) S_v/n_v / W, W = Σ w_v/c_v, is below Bin(n', P)/n' in convex order, n' = ⌊1/(largest weight of a
    report)⌋ (as in theorem A of `pooling`); the interval inverts the upper mean. For windows of other lengths take for
    `devices` the reports of the round times the rounds of the window: about the devices. The weights are estimates
    then.

    Another name or digest is another question (range, labels, ε, joint limit) and is refused: the reader shows a break.
    Tags that one version lacks are folded first, and `min_reports` applies to the sum.

    >>> from reticent_collector.counts import MeanCounts
    >>> from reticent.mechanisms import OneBitMean
    >>> part = Metric("part", OneBitMean(epsilon=1, max_value=1))
    >>> old = VersionCounts(part, MeanCounts(900, 325), devices=9_000, answers=Answers(28, metrics=1), metrics=10)
    >>> new = VersionCounts(part, MeanCounts(1_000, 639), devices=1_000, answers=Answers(28))
    >>> estimate = over_versions([old, new])
    >>> print(estimate, estimate.rule)
    0.260 ± 0.078 (95%, n=1,900) stratified
    """
    check_confidence(confidence)
    if not versions:
        raise ParameterError("versions", "the counts of at least one version", 0)
    first = versions[0]
    for version in versions:
        if _memo(version) != _memo(first):
            raise ParameterError(
                f"versions of {first.metric.name}",
                "the same name and privacy parameters (digest)",
                version.metric.name,
                "counts of another question do not add; show a break",
            )
        if version.devices < version.counts.devices:
            raise ParameterError(
                "devices", f"all reports, at least {version.counts.devices}", version.devices
            )
    if all(version.adds_to(first) for version in versions):
        return estimate(first.metric, reduce(add, (version.counts for version in versions)), confidence)
    return _stratified(versions, confidence)


def _memo(version: VersionCounts) -> tuple[str, bytes]:
    return version.metric.name, version.metric.digest


def _stratified(versions: Sequence[VersionCounts], confidence: float) -> Estimate | HistogramEstimate:
    metric = versions[0].metric
    hits, told = (
        np.stack(rows, axis=1)
        for rows in zip(
            *([rows[:, 0] for rows in counted(v.metric, [v.counts])] for v in versions), strict=True
        )
    )
    devices = np.array([version.devices for version in versions], dtype=np.float64)
    contrasts = np.array([float(version.metric.channel.contrast) for version in versions])
    reaches = np.array([reach(version.metric) for version in versions])
    lows = np.array([float(version.metric.channel.low) for version in versions])
    weights = devices / devices.sum() / contrasts
    total = weights.sum()
    share = shares(hits, told) @ weights / total
    everywhere = (told > 0).all(axis=1)
    heaviest = (weights / np.maximum(told, 1)).max(axis=1) / total
    tail = (1 - confidence) / metric.mechanism.intervals / 2
    lower, upper = np.full((2, len(share)), np.nan)
    for place in np.flatnonzero(everywhere):
        law = Steady(int(1 / heaviest[place] * (1 + 1e-12)), 1, 0.0, 1.0)
        lower[place], upper[place] = average_interval(law, share[place], tail)
    # The share that a report through the first channel has at the same truth.
    channel = metric.channel
    shift = float(weights @ lows) / total

    def seen(ends: np.ndarray) -> np.ndarray:
        return np.asarray(channel.share((ends - shift) * total))

    return estimates(
        metric,
        seen(share),
        (seen(lower), seen(upper)),
        np.where(everywhere, told.sum(axis=1), 0),
        sum(version.counts.devices for version in versions),
        confidence,
        leverage=(devices * reaches / np.maximum(told, 1)).max(axis=1) / reaches[0],
        rule="stratified",
    )
