"""Figure 5: the error of estimated histograms on usage data, for three fleet sizes, and what reticent adds."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, log

from paper.error_panels import Panel
from paper.experiment import Claim, Progress, Result, Setting, quiet
from paper.fleet_days import stand_in
from paper.histogram_errors import Pair, stand_in_panels
from paper.histogram_methods import BUCKETS, PAPER, SAME_AS_BIN_FLIP
from paper.histogram_results import histogram_pictures, histogram_tables
from paper.judging import COMPARABLE, Measured, judge, no_worse, ratios, within

PLACE = "§5, Histogram estimation (Figure 5)"
RETICENT = "reticent, beside Figure 5"

GOOD = 2.0
"""BinFlip+ has "good performance" with at most twice the error of BinFlip, which sends 32 bits, not one."""

SAME = 4.5
"""Mean errors are "the same" up to 4.5 standard errors of their difference (7e-6 per point by chance)."""

HALF = 0.55
"""What "half the error" may measure."""


def run(setting: Setting, progress: Progress = quiet) -> Result:
    """The largest error over 32 buckets of the paper's mechanisms and of reticent's, on the stand-in data."""
    pairs = stand_in_panels(setting, progress)
    return Result(
        "fig5",
        "Figure 5: histogram estimation on usage data",
        f"Largest error over {BUCKETS} buckets of one day's histogram: {setting.repetitions:,} repetitions, "
        f"the {setting.days} days in turn; values of {stand_in(setting).name} in place of the paper's "
        "unpublished data set. The paper's mechanisms have the paper's calibration and estimator (bits about "
        "a bucket divided by the nd/k expected); BinFlip+ accepts with 1/(2 cosh(ε/2)), which is private for "
        "every ε; "
        '"ratio" and reticent\'s own divide by the bits received. Lifetime loss is that of a device which '
        "remembers its answers and visits every bucket.",
        histogram_tables("fig5", pairs),
        histogram_pictures("fig5", "usage data", pairs),
        claims([at_epsilon for at_epsilon, _ in pairs]) + our_claims(pairs),
    )


def claims(panels: Sequence[Panel]) -> tuple[Claim, ...]:
    """What the paragraph "Histogram estimation" says, judged by panels at equal ε."""
    return (
        judge(
            PLACE,
            "dBitFlipPM with d = k has the accuracy of BinFlip",
            "difference of their mean errors in standard errors",
            _same(panels),
        ),
        judge(
            PLACE,
            "KFlip is sub-optimal for small ε (≤ 1)",
            "mean error of KFlip over that of BinFlip",
            ratios(panels, "KFlip", "BinFlip", lambda ratio: ratio > 1, (0.1, 0.2, 0.5, 1.0)),
        ),
        judge(
            PLACE,
            f"KFlip is better when ε is Ω(ln k) (ε ≥ ln 32 = {log(BUCKETS):.2f})",
            "mean error of KFlip over that of BinFlip",
            ratios(panels, "KFlip", "BinFlip", no_worse, (5.0, 10.0)),
            "E23",
        ),
        judge(
            PLACE,
            f"BinFlip+ has good performance when ε ≤ 2 (at most {GOOD:g} times BinFlip's error)",
            "mean error of BinFlip+ over that of BinFlip",
            ratios(panels, "BinFlip+", "BinFlip", lambda ratio: ratio <= GOOD, (0.1, 0.2, 0.5, 1.0, 2.0)),
            "E24",
        ),
        judge(
            PLACE,
            "BinFlip has the best accuracy overall",
            "mean error of BinFlip over that of the best other mechanism in the figure",
            _best(panels),
            "E23",
        ),
        judge(
            PLACE,
            f"4BitFlipPM is comparable to KFlip for ε from 0.1 to 0.5 (within {COMPARABLE:g} times)",
            "mean error of 4BitFlipPM over that of KFlip",
            ratios(panels, "4BitFlipPM", "KFlip", within(COMPARABLE), (0.1, 0.2, 0.5)),
        ),
        *(_beats_bin_flip_plus(panels, width) for width in (4, 2, 1)),
    )


def our_claims(pairs: Sequence[Pair]) -> tuple[Claim, ...]:
    """What reticent says of its own two mechanisms, judged in the same way."""
    at_epsilon, at_lifetime = ([pair[place] for pair in pairs] for place in (0, 1))
    small = (0.1, 0.2, 0.5, 1.0)
    return (
        judge(
            RETICENT,
            "At equal ε the tight 1BitFlipPM has half the error of the paper's",
            "mean error of the tight 1BitFlipPM over that of the paper's",
            ratios(at_epsilon, "1BitFlipPM, tight", "1BitFlipPM", lambda ratio: ratio <= HALF),
            "E8",
        ),
        judge(
            RETICENT,
            f"For ε ≤ 1 the one Hadamard bit is comparable to BinFlip's 32 (within {COMPARABLE:g} times)",
            "mean error of the Hadamard bit over that of BinFlip",
            ratios(at_epsilon, "Hadamard bit", "BinFlip", within(COMPARABLE), small),
        ),
        judge(
            RETICENT,
            "At an equal lifetime loss of up to 2 the Hadamard bit has half the error of the best dBitFlipPM",
            "mean error of the Hadamard bit over that of the best other",
            _best_of_lifetime(at_lifetime, (*small, 2.0)),
        ),
    )


def _same(panels: Sequence[Panel]) -> list[Measured]:
    points = []
    for panel in panels:
        for epsilon in panel.abscissae:
            every, plain = (panel.lines[name][epsilon] for name in (SAME_AS_BIN_FLIP.name, "BinFlip"))
            figure = (every.mean - plain.mean) / hypot(every.uncertainty, plain.uncertainty)
            points.append(Measured(panel.title, epsilon, figure, abs(figure) <= SAME))
    return points


def _best(panels: Sequence[Panel]) -> list[Measured]:
    others = [method.name for method in PAPER if method.name != "BinFlip"]
    return [
        Measured(panel.title, epsilon, ratio, no_worse(ratio))
        for panel in panels
        for epsilon in panel.abscissae
        if (ratio := max(panel.ratio("BinFlip", other, epsilon) for other in others))
    ]


def _best_of_lifetime(panels: Sequence[Panel], lifetimes: Sequence[float]) -> list[Measured]:
    return [
        Measured(panel.title, given, ratio, ratio <= HALF)
        for panel in panels
        for given in lifetimes
        if (
            ratio := max(
                panel.ratio("Hadamard bit", other, given) for other in panel.lines if other != "Hadamard bit"
            )
        )
    ]


def _beats_bin_flip_plus(panels: Sequence[Panel], width: int) -> Claim:
    """The last sentence of the paragraph; the ratio estimator tells what of it is due to the estimator."""
    name = f"{width}BitFlipPM"
    with_ratio = ratios(panels, f"{name}, ratio", "BinFlip+", no_worse, (5.0, 10.0))
    figures = sorted(point.figure for point in with_ratio)
    return judge(
        PLACE,
        f"{name} is better than BinFlip+ for ε from 5 to 10",
        f"with the ratio estimator {figures[0]:.3g} to {figures[-1]:.3g} times BinFlip+'s mean error; "
        "with the paper's",
        ratios(panels, name, "BinFlip+", no_worse, (5.0, 10.0)),
        "E24",
    )
