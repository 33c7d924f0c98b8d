"""
Averages and differences of estimates from several rounds.

Remembered bits do not average out. A device whose value stays the same sends the same bit every round (but
for the flip), so the error of one round is, for the most part, the error of the next:

    n·Var(T-round average of the bit) = (1-2γ)² P(1-P) + γ(1-γ)/T,

.112 at ε = 1, γ = .2 and T = 7 where independent rounds would give .036. Dividing by √T, the textbook rule,
would claim intervals 1.8 times too narrow after a week, and 11 times after a year.

What always holds is the triangle inequality for standard deviations, whatever the dependence:
sd(average) ≤ average of sds, and sd(a - b) ≤ sd(a) + sd(b). Hence half-widths of an average are averaged,
those of a difference added, at the same confidence.

Within one round devices differ from segment to segment: pool segments by adding their *counts*.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import overload

from reticent.errors import ParameterError
from reticent.estimates.estimator import Estimate, HistogramEstimate


@overload
def average(estimates: Sequence[Estimate]) -> Estimate: ...
@overload
def average(estimates: Sequence[HistogramEstimate]) -> HistogramEstimate: ...
def average(
    estimates: Sequence[Estimate] | Sequence[HistogramEstimate],
) -> Estimate | HistogramEstimate:
    """
    The average over rounds of one metric: ends of the intervals are averaged, never divided by √T.

    Histograms are averaged bucket by bucket. `reports` is the least of the rounds: bits that repeat
    themselves are not more evidence.
    """
    if not estimates:
        raise ParameterError("estimates", "at least one estimate", 0)
    if len({type(estimate) for estimate in estimates}) > 1:
        raise ParameterError("estimates", "all of one kind", "histograms and numbers")
    histograms = [estimate for estimate in estimates if isinstance(estimate, HistogramEstimate)]
    if histograms:
        return _bucketwise(histograms, average)
    numbers = [estimate for estimate in estimates if isinstance(estimate, Estimate)]
    return _combined(numbers, [1 / len(numbers)] * len(numbers), numbers[0].span)


@overload
def difference(later: Estimate, earlier: Estimate) -> Estimate: ...
@overload
def difference(later: HistogramEstimate, earlier: HistogramEstimate) -> HistogramEstimate: ...
def difference(
    later: Estimate | HistogramEstimate, earlier: Estimate | HistogramEstimate
) -> Estimate | HistogramEstimate:
    """
    `later` less `earlier`: the half-widths add up, whether or not the same devices answered.

    A change of zero is not excluded until the interval excludes it; for devices that did not change, the
    noise cancels and the interval is far wider than the error, which nobody can know from counts alone.
    """
    if isinstance(later, HistogramEstimate) and isinstance(earlier, HistogramEstimate):
        return _bucketwise([later, earlier], lambda pair: difference(pair[0], pair[1]))
    if isinstance(later, HistogramEstimate) or isinstance(earlier, HistogramEstimate):
        raise ParameterError("estimates", "two of one kind", "a histogram and a number")
    low, high = later.span
    return _combined([later, earlier], [1.0, -1.0], (low - high, high - low))


def _combined(estimates: list[Estimate], weights: list[float], span: tuple[float, float]) -> Estimate:
    """Σ weight · estimate, with the interval that holds whatever the dependence between them."""
    kinds = {
        (number.confidence, number.together, number.unit, number.span, number.edges) for number in estimates
    }
    if len(kinds) > 1:
        raise ParameterError(
            "estimates",
            "estimates of one metric at one confidence",
            f"{len(kinds)} different combinations of confidence, unit and range",
        )
    first = estimates[0]
    value = sum(weight * estimate.value for weight, estimate in zip(weights, estimates, strict=True))
    ends = [
        sorted(weight * end for end in estimate.uncut)
        for weight, estimate in zip(weights, estimates, strict=True)
    ]
    lower, upper = sum(low for low, _ in ends), sum(high for _, high in ends)
    sizes = [abs(weight) for weight in weights]
    squares = [size * estimate.half_width**2 for size, estimate in zip(sizes, estimates, strict=True)]
    return replace(
        first,
        value=value,
        lower=min(max(lower, span[0]), span[1]),
        upper=min(max(upper, span[0]), span[1]),
        reports=min(estimate.reports for estimate in estimates),
        devices=min(estimate.devices for estimate in estimates),
        span=span,
        uncut=(lower, upper),
        noise_share=sum(s * estimate.noise_share for s, estimate in zip(squares, estimates, strict=True))
        / sum(squares),
        paper_bound=sum(size * estimate.paper_bound for size, estimate in zip(sizes, estimates, strict=True)),
        manipulation=sum(
            size * estimate.manipulation for size, estimate in zip(sizes, estimates, strict=True)
        ),
    )


def _bucketwise(
    histograms: list[HistogramEstimate], combine: Callable[[list[Estimate]], Estimate]
) -> HistogramEstimate:
    """A histogram whose every bucket combines those of `histograms`."""
    first = histograms[0]
    if any(histogram.edges != first.edges for histogram in histograms):
        raise ParameterError("estimates", "histograms with the same edges", "different ones")
    buckets = zip(*(histogram.buckets for histogram in histograms), strict=True)
    return replace(
        first,
        buckets=tuple(combine([*bucket]) for bucket in buckets),
        reports=min(histogram.reports for histogram in histograms),
    )
