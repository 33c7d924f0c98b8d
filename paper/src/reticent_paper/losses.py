"""What is lost, beside what the paper prints: by round, over rounds, by counters, widths and changes."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import exp, isclose, log

from reticent.errors import ParameterError
from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, OneBitMean
from reticent_collector import privacy
from reticent_paper.claims import DAY, ExperimentResult, Finding, NumberTable, Rows, claim, table

DEPLOYED = OneBitMean(epsilon=1, max_value=21_600)
"""The counter of the deployment: seconds in an app out of six hours, on one step."""

FLIP = Flip("0.2")  # Its output perturbation
PRINTED_ROUND = 0.686  # ε' as printed in §6
PRINTED_JOINT = 1.672  # ε'' as printed in §6
COUNTERS = (1, 2, 3, 5, 10, 20, 50, 100, 1000)
ROUNDS = (1, 2, 3, 5, 10, 31, 124)
MOVES = (1, 2, 3, 7)
WIDTHS = {1: (1, 2), 2: (1, 2, 3), 3: (1, 2, 3, 4), 20: (1, 2, 3, 5, 10, 21)}
"""Widths looked at, by the number of steps m/s."""


def run() -> ExperimentResult:
    """All tables of losses, and the claims about them."""
    one = one_round()
    several = several_counters()
    over_rounds = rounds()
    by_width = widths()
    moved = moves()
    return ExperimentResult(
        "losses",
        "Losses",
        "ε spent, computed from the equations and exactly, beside the figures the paper prints.",
        tables=(one, several, over_rounds, by_width, moved),
        claims=(
            printed_round(one),
            flips_up_to_one_half(),
            equation_of_flips(),
            only_one_round(over_rounds),
            moved_change(moved),
            width_theorem(by_width),
            joint_theorem(several),
            printed_joint(one),
        ),
    )


@table("one-round")
def one_round() -> Rows:
    """ε′ and ε″ of the deployment (ε = 1, γ = 0.2)"""
    response = DEPLOYED.response
    gamma = float(FLIP.probability)
    low, high = response.low / SCALE, response.high / SCALE
    dropped = log((high + gamma) / (low + gamma))
    inherited = PRINTED_ROUND + exp(PRINTED_ROUND) - 1
    tau, joint = privacy.loss_per_round(DEPLOYED, FLIP), privacy.paper_joint_limit_loss(DEPLOYED, FLIP)
    for what, printed, computed, retraced in (
        ("ε′, one app", PRINTED_ROUND, tau, dropped),
        ("ε″, any number of apps", PRINTED_JOINT, joint, inherited),
    ):
        yield {
            "figure": what,
            "printed": printed,
            "by the equation": computed,
            "printed figure retraced": retraced,
            "printed / equation": printed / computed,
        }


@table("several-counters")
def several_counters() -> Rows:
    """Several counters with a joint limit (ε = 1, γ = 0.2)"""
    single = privacy.loss_per_round(DEPLOYED, FLIP)
    limit = DEPLOYED.max_value
    for counters in COUNTERS:
        apps, flips = [DEPLOYED] * counters, [FLIP] * counters
        exact = privacy.joint_limit_loss(apps, flips, limit)
        yield {
            "counters": counters,
            "one round, exact": exact,
            "paper's bound": privacy.paper_joint_limit_loss(DEPLOYED, FLIP),
            "times one counter": exact / single,
            "without the limit": counters * single,
            "all rounds, steady vector": privacy.joint_limit_loss(apps, flips, limit, rounds="all"),
            "its bound": privacy.paper_joint_limit_loss(DEPLOYED, FLIP, rounds="all"),
        }


@table("rounds")
def rounds() -> Rows:
    """A device that never changes, over T rounds (ε = 1, γ = 0.2)"""
    single = privacy.loss_per_round(DEPLOYED, FLIP)
    for number in ROUNDS:
        loss = privacy.loss_of_constant_device(DEPLOYED, FLIP, number)
        yield {"rounds": number, "loss": loss, "times ε′": loss / single}


@table("widths")
def widths() -> Rows:
    """Two devices of one pattern of width w, over any number of rounds (ε = 1)"""
    cases: list[tuple[str, str, OneBitMean | DBitFlip, tuple[int, ...]]] = [
        ("1BitRRPM", f"m/s = {parts}", OneBitMean(1, DAY, Fraction(DAY, parts)), some)
        for parts, some in WIDTHS.items()
    ]
    for variant in ("paper", "tight"):
        for bits in (1, 2, 4):
            mechanism = DBitFlip(1, Buckets.even(DAY, 32), bits, variant)
            cases.append((f"dBitFlipPM, {variant}", f"d = {bits}, k = 32", mechanism, (1, 2, 3, 5)))
    for name, grid, asked, some in cases:
        for width in (width for width in some if width <= asked.classes):
            loss = privacy.loss_by_width(asked, width)
            bound = float(width * asked.epsilon)
            yield {"mechanism": name, "grid": grid, "width": width, "exact loss": loss, "paper's w·ε": bound}


@table("moved-change")
def moves() -> Rows:
    """A change that came δ rounds earlier or later (γ = 0.2)"""
    for rounds in MOVES:
        exact = privacy.loss_of_moved_change(DEPLOYED, FLIP, rounds)
        printed = -rounds * log(FLIP.probability)
        yield {"δ": rounds, "exact: δ·ln((1-γ)/γ)": exact, "printed: δ·ln(1/γ)": printed}


@claim("§6", "this makes a single round of data collection satisfy", "E1", "exact")
def printed_round(table: NumberTable) -> Finding:
    """At ε = 1, γ = 0.2 a round is ε′-DP with ε′ = 0.686."""
    return _printed(*(table.numbers(column)[0] for column in ("printed", "by the equation")))


@claim("§6", "a single round of data collection across an arbitrary large number of apps", "E2", "exact")
def printed_joint(table: NumberTable) -> Finding:
    """One round across any number of apps is ε″-DP with ε″ = 1.672."""
    return _printed(*(table.numbers(column)[1] for column in ("printed", "by the equation")))


def _printed(printed: float, computed: float) -> Finding:
    """A printed number against that of the equation: one that is too large is still an upper bound."""
    reason = (
        "the printed figure is an upper bound" if printed > computed else "the printed figure is too small"
    )
    return Finding(f"{computed:.4f}", round(computed, 3) == printed, reason)


@claim("§4", "flip the output of memoized responses with a small probability", "E10", "exact")
def flips_up_to_one_half(largest: str = "0.5") -> Finding:
    """Answers are flipped with 0 ≤ γ ≤ 0.5, and the mean is still estimated."""
    near = Flip("0.499").channel(DEPLOYED.response).contrast / Flip(0).channel(DEPLOYED.response).contrast
    try:
        Flip(largest)
        allowed = True
    except ParameterError:
        allowed = False
    return Finding(f"errors {float(1 / near):,.0f} times larger at 0.499", allowed, "γ < 1/2")


@claim("§4, Theorem 6", "is equivalent to invoking the 1BitMean algorithm with", "", "exact")
def equation_of_flips() -> Finding:
    """Flips turn 1BitMean with ε into the one with ε′ of the equation."""
    differences = []
    for epsilon, gamma in product(("0.1", "1", "5"), ("0.1", "0.2", "1/3")):
        flipped = OneBitMean(epsilon, 24)
        flip = Flip(gamma)
        same = OneBitMean(privacy.loss_per_round(flipped, flip), 24)
        differences.append(abs(float(flip.channel(flipped.response).low) - same.response.low / SCALE))
    return Finding(f"probabilities differ by {max(differences):.0e}", max(differences) < 1e-12)


@claim(
    "§4, Theorem 6", "Consider a single round of data collection with the algorithm above.", "E11", "exact"
)
def only_one_round(table: NumberTable) -> Finding:
    """A single round of data collection is ε′-DP."""
    first, *_, last = table.numbers("loss")
    single = privacy.loss_per_round(DEPLOYED, FLIP)
    return Finding(f"{first:.3f} in 1, {last:.3f} in 124 rounds", abs(first - single) < 1e-9, "more than ε′")


@claim("§4, Theorem 5", "we flip each output bit", "E9", "exact")
def moved_change(table: NumberTable) -> Finding:
    """For answers that differ in δ rounds the probabilities have a ratio ≥ γ^δ."""
    exact, printed = (table.numbers(column) for column in table.columns[1:])
    return Finding(
        f"{exact[0]:.3f} per round; printed bound {printed[0]:.3f}",
        all(loss <= bound for loss, bound in zip(exact, printed, strict=True)),
        "the bound is exceeded",
    )


@claim("§3.2, Theorem 4", "with the width of b(U) equal to w", "E18", "exact")
def width_theorem(table: NumberTable) -> Finding:
    """Two users of one pattern of width w are e^(wε)-indistinguishable over any number of rounds."""
    exact, bounds = table.numbers("exact loss"), table.numbers("paper's w·ε")
    sound = all(loss <= bound * (1 + 1e-12) for loss, bound in zip(exact, bounds, strict=True))
    tight = sum(isclose(loss, bound) for loss, bound in zip(exact, bounds, strict=True))
    return Finding(f"equal to wε in {tight} of {len(exact)} cases", sound, "the bound is exceeded")


@claim("§6, Theorem 7", "to simultaneously collect t counters", "E12", "exact")
def joint_theorem(table: NumberTable) -> Finding:
    """Counters with Σx ≤ m lose at most τ + e^τ - 1 per round."""
    exact, bounds = table.numbers("one round, exact"), table.numbers("paper's bound")
    return Finding(
        f"{exact[-1]:.4f} for 1,000 counters; bound {bounds[0]:.4f}",
        all(loss <= bound for loss, bound in zip(exact, bounds, strict=True)),
        "the bound is exceeded",
    )
