"""Sentences of the paper that are computed over all outcomes, from the integers that devices compare with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import comb, exp, inf, log

import numpy as np
from scipy.stats import binom

from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, OneBitMean
from reticent.plan import Metric
from reticent_collector import privacy
from reticent_collector.estimates import paper_bound
from reticent_lab.audit.exact import loss_of_constant
from reticent_paper.baselines import BinFlip, BinFlipPlus, KFlip, Laplace
from reticent_paper.bounds import CONFIDENCE, coverages
from reticent_paper.claims import (
    DAY,
    EPSILONS,
    ExperimentResult,
    Finding,
    NumberTable,
    PaperClaim,
    Rows,
    Setting,
    claim,
    table,
)
from reticent_paper.losses import DEPLOYED, FLIP
from reticent_paper.values import generator

BIT = OneBitMean(1, 1)
P, Q = (Fraction(threshold, SCALE) for threshold in (BIT.response.high, BIT.response.low))
"""The chances of a 1 at the top and at the bottom of the range, at ε = 1."""

Law = dict[tuple[int, ...], Fraction]  # The chance of each sequence of answers
ALIKE = 0.1  # Two histories "cannot be differentiated" up to this loss
SENTENCES: list[Callable[[], PaperClaim]] = []  # The claims below that are judged without a table


def exactly(
    place: str, quote: str, erratum: str = "", ours: str = ""
) -> Callable[[Callable[[], Finding]], object]:
    """A claim that is computed over all outcomes."""

    def decorate(judge: Callable[[], Finding]) -> Callable[[], PaperClaim]:
        SENTENCES.append(claim(place, quote, erratum, "exact", ours)(judge))
        return SENTENCES[-1]

    return decorate


def run(setting: Setting) -> ExperimentResult:
    """Every sentence that can be computed; only the seed of the setting is used."""
    near = nearly_constant()
    hidden = auxiliary(setting.seed)
    return ExperimentResult(
        "theorems",
        "Theorems and sentences, computed",
        "Each by enumeration or from the thresholds of the devices; ε = 1 where nothing else is said.",
        tables=(near, hidden),
        claims=(*(judge() for judge in SENTENCES), approximately_consistent(near), smaller_step(hidden)),
    )


def hockey_stick(first: Law, second: Law, epsilon: Fraction) -> float:
    """The least δ for which `first` is (ε, δ)-close to `second`: Σ (P - e^ε·P′)⁺, e^ε from the thresholds."""
    ratio = P / Q if epsilon == 1 else Fraction(exp(epsilon))
    return float(
        sum(max(Fraction(0), chance - ratio * second.get(seen, 0)) for seen, chance in first.items())
    )


def histories(values: Sequence[int], top: int) -> Law:
    """The law of remembered answers to these values, s = m = `top`, over every alpha and every memo, no flips."""
    law: Law = {}
    for alpha, low, high in product(range(top), (0, 1), (0, 1)):
        chance = Fraction(1, top) * (Q if low else 1 - Q) * (P if high else 1 - P)
        seen = tuple(high if value + alpha >= top else low for value in values)
        law[seen] = law.get(seen, Fraction(0)) + chance
    return law


@table("nearly-constant")
def nearly_constant() -> Rows:
    """Values in a band of width η: the least δ of (ε, δ), over all pairs of histories (s = m = 24)"""
    top = 24
    for eta in (0, 1, 2, 4, 8):
        within = [
            histories(values, top)
            for low in range(0, top - eta + 1, 4)
            for values in ((low,) * 3, (low, low + eta, low), (low + eta, low, low + eta))
        ]
        worst = max(hockey_stick(one, other, Fraction(1)) for one in within for other in within)
        yield {
            "η/s": eta / top,
            "least δ, by enumeration": worst,
            "(η/s)·(p² + q²)": eta / top * float(P**2 + Q**2),
            "loss with δ = 0": 1.0 if not eta else inf,
        }


@claim("§1.2, component 3", "if the counter value of a user remains approximately consistent", "E27", "exact")
def approximately_consistent(table: NumberTable) -> Finding:
    """A user whose value stays approximately consistent is guaranteed ε-DP over many rounds."""
    shares, least = table.numbers("η/s"), table.numbers("least δ, by enumeration")
    proved = all(delta <= share + 1e-12 for share, delta in zip(shares, least, strict=True))
    return Finding(
        f"δ = {least[-1]:.3f} at η/s = {shares[-1]:.3f}",
        max(least) == 0,
        "(ε, η/s)-DP for a band of width η" if proved else "no such bound",
    )


@table("auxiliary")
def auxiliary(seed: int) -> Rows:
    """One answer against an attacker who knows a device's answer for every value (ε = 1, uniform values)"""
    draw = generator(seed, "theorems", "auxiliary")
    devices = 20_000
    for parts in (1, 2, 3, 20):
        mechanism = OneBitMean(1, DAY, Fraction(DAY, parts))
        chances = np.array(mechanism.cell_thresholds) / SCALE
        memo = draw.random((devices, parts + 1)) < chances
        places = (np.arange(0, 1, 1 / 240) + 1 / 480) * parts
        cells = (places + draw.random((devices, 1))).astype(int)
        bits = np.take_along_axis(memo, cells, axis=1)
        ones = bits.mean(axis=1)
        upper = bits[:, 120:].mean(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            told = -np.nan_to_num(ones * np.log2(ones)) - np.nan_to_num((1 - ones) * np.log2(1 - ones))
        right = 0.5 + np.abs(upper - (2 * ones - upper)) / 2
        yield {
            "m/s": parts,
            "half of the range guessed": float(right.mean()),
            "bits told about the value": float(told.mean()),
            "same-pattern loss, every cell visited": privacy.loss_by_width(mechanism, parts + 1),
        }


@claim(
    "§3.2.1",
    "smaller s may be advantageous to avoid certain attacks",
    "E28",
    "measured",
    "an advantage: the half of the range is guessed less often, and no more is learned",
)
def smaller_step(table: NumberTable) -> Finding:
    """Smaller s may help against attacks with auxiliary information."""
    guessed, told, losses = (table.numbers(column) for column in table.columns[1:])
    fewer = guessed[-1] < guessed[0]
    less = told[-1] <= told[0]
    return Finding(
        f"{told[-1]:.2f} bits learned, not {told[0]:.2f}, and loss {losses[-1]:.1f}, not {losses[0]:.1f}",
        fewer and less,
        "for coarse questions only" if fewer else "it does not",
    )


@exactly("§1.2", "which is too large to be reasonable as T increases")
def fresh_noise() -> Finding:
    """T independent executions of an ε-LDP mechanism are e^(Tε)-indistinguishable only."""
    rounds = 31
    one = log(P / Q)
    return Finding(f"loss {rounds * one:.0f} in {rounds} rounds", one <= 1)


@exactly("§2.1, Theorem 1 and Lemma 1", "preserves ε-DP of every user")
def one_bit_is_private() -> Finding:
    """1BitMean preserves ε-LDP of every user."""
    over = max(float(loss_of_constant(OneBitMean(e, 100, 1), 0, 1).logarithm) - e for e in EPSILONS)
    return Finding("loss at most ε" if over <= 0 else f"loss at most ε + {over:.0e}", over <= 1e-12)


@exactly("§2.1, Lemma 2", "is an unbiased estimator for")
def one_bit_is_unbiased() -> Finding:
    """The estimate of the mean is unbiased."""
    channel = Flip(0).channel(BIT.response)
    cells = OneBitMean(1, 100, 1).cell_thresholds
    bias = max(
        abs((Fraction(cell, SCALE) - channel.low) / channel.contrast - Fraction(value, 100))
        for value, cell in enumerate(cells)
    )
    return Finding(f"bias at most {float(bias):.0e} of the range", bias < Fraction(1, 2**60))


@exactly("§2.1", "each user takes values either 0 or m")
def randomized_response() -> Finding:
    """For values 0 and m 1BitMean is the basic randomizer of Bassily and Smith."""
    return Finding(f"P(1) = {float(Q):.4f} and {float(P):.4f}", P + Q == 1)


@exactly("§2.1, proof of Lemma 3", "Applying the Chernoff-Hoeffding bound", "E4")
def lost_factor() -> Finding:
    """In the second tail bound: Pr ≤ e^(-2t²/n)."""
    miss = 1.0
    printed = exp(-2 * 0.5**2)
    return Finding(f"allows {printed:.2f} where 1 occurs", miss <= printed, "2·e^(-2t²/n)")


@exactly("§2.2, Theorem 2", "preserves ε-LDP for each user", "E8")
def d_bits_are_private() -> Finding:
    """The mechanism dBitFlip preserves ε-LDP for each user."""
    buckets = Buckets.even(6, 6)
    losses = {
        bits: float(loss_of_constant(DBitFlip(1, buckets, bits, "paper"), 0, 1).logarithm)
        for bits in (1, 2, 4, 6)
    }
    return Finding(f"loss {losses[1]:.2f}ε for d = 1, else ε", max(losses.values()) <= 1 + 1e-12)


@exactly("§2.2", "is exactly the same as the one in")
def all_buckets() -> Finding:
    """When d = k, dBitFlip is exactly the mechanism of Duchi et al."""
    apart = max(
        abs(
            Flip(0).channel(DBitFlip(e, Buckets.even(32, 32), 32, "paper").response).high
            - BinFlip(e, 32).channel.high
        )
        for e in EPSILONS
    )
    return Finding(f"probabilities differ by {float(apart):.0g}", not apart)


@exactly("§2.2, proof of Theorem 2", "based on how each user chooses", "E5")
def upside_down() -> Finding:
    """On average n_v = k/(nd) users answer about a bucket."""
    n = 6
    k = 3
    d = 1
    mean = sum(Fraction(answers) * comb(n, answers) * Fraction(d, k) ** answers * Fraction(k - d, k) ** (n - answers)
               for answers in range(n + 1))  # fmt: skip
    printed = Fraction(k, n * d)
    return Finding(f"{mean} of {n}, not {printed}", mean == printed, "nd/k")


@exactly("§3", "enough noisy reads to estimate", ours="high accuracy: the end of the range guessed for 99 %")
def enough_reads() -> Finding:
    """With fresh noise the collector learns x accurately after a number of rounds."""
    right = {rounds: float(binom.sf(rounds // 2, rounds, float(P))) for rounds in (31, 365)}
    return Finding(f"0 or m guessed for {100 * right[31]:.1f} % after 31 rounds", right[365] > 0.99)


@exactly("§3", "the use of memoization violates differential privacy")
def memo_is_not_private() -> Finding:
    """Memoization violates DP: a changing user is distinguished from a constant one."""
    steady, changing = histories((0, 0), 2), histories((0, 2), 2)
    certain = [seen for seen in changing if not steady.get(seen)]
    share = float(sum(changing[seen] for seen in certain))
    return Finding(f"seen with probability {share:.3f}, against 0", bool(certain))


@exactly("§3", "but not what it was and not what it is", "E29")
def only_that_it_changed() -> Finding:
    """A changed response indicates that the value changed, not what it was or is."""
    up, down = histories((0, 2), 2), histories((2, 0), 2)
    odds = up[0, 1] / down[0, 1]
    return Finding(
        f"odds {float(odds):.2f} = e^(2ε)", odds == 1, "hidden up to e^(2ε)", partly=odds <= (P / Q) ** 2
    )


@exactly("§3", "naively using memoization adds no additional protection")
def memo_of_every_value() -> Finding:
    """Memoization without rounding does not protect a value that varies a little."""
    days = 31
    fine = OneBitMean(1, DAY, 1)
    loss = sum(log(fine.cell_thresholds[DAY - day] / fine.cell_thresholds[day]) for day in range(days))
    return Finding(f"loss {loss:.2f} in {days} days", loss > 0.99 * days)


@exactly("§3", "after rounding every user would be responding based on the value")
def midpoints() -> Finding:
    """Rounding to midpoints: values ℓs + 1 are all answered as ℓs + s/2."""
    step = DAY // 20
    return Finding(f"off by {step // 2 - 1:,} of {DAY:,} s", step // 2 > 1)


@exactly("§3.1, step 1", "We assume that s divides m.", "E16")
def step_divides_range() -> Finding:
    """It is assumed that s divides m."""
    top, cell = 50, 60
    loss = log((Q + Fraction(cell, top) * (P - Q)) / Q)
    return Finding(f"otherwise loss {loss:.3f} (m = {top}, s = 20)", loss > 1)


@exactly("§3.1, Lemma 4", "has a private (integer or real) counter", "E15")
def rounding() -> Finding:
    """Rounding with α in {0, …, s - 1} keeps integer and real means."""
    step = 6

    def mean(value: Fraction) -> Fraction:
        return Fraction(sum(step * (value + alpha >= step) for alpha in range(step)), step)

    whole = all(mean(Fraction(value)) == value for value in range(step))
    half = mean(Fraction(1, 2)) - Fraction(1, 2)
    return Finding(
        f"x = 0.5 is off by {float(half):+.1f}",
        whole and not half,
        "real values need a continuous α" if whole else "nor are whole numbers",
    )


@exactly("§3.1, proof of Theorem 3", "each output bit", "E3")
def weights() -> Finding:
    """Pr[b = 1] weighs both L and R with b/(a + b)."""
    a, b = Fraction(1), Fraction(3)
    total = 2 * b / (a + b)
    return Finding(f"weights sum to {total}", total == 1, "a/(a + b) for R")


def patterns_of(values: Sequence[float], parts: int, draws: int = 2520) -> list[tuple[int, ...]]:
    """The pattern of these hours (of 24) for each of equally spaced alphas."""
    step = 24 / parts
    answers = []
    for draw in range(draws):
        cells = [int((value + (draw + 0.5) / draws * step) // step) for value in values]
        names = list(dict.fromkeys(cells))
        answers.append(tuple(names.index(cell) for cell in cells))
    return answers


def chance_alike(first: Sequence[float], second: Sequence[float], parts: int, draws: int = 2520) -> float:
    """The probability that two users with these values have the same pattern."""
    one, other = (patterns_of(values, parts, draws) for values in (first, second))
    return sum(one.count(own) * other.count(own) for own in set(one)) / len(one) ** 2


@exactly("§3.2", "will likely map to the same behavior pattern", ours="likely: with probability above 1/2")
def likely_alike() -> Finding:
    """(0.5, 2, 6) and (4, 1/6, 0) hours likely map to one pattern."""
    parts = (1, 6, 96, 144)  # the last are segments of 15 and 10 minutes
    whole, sixth, quarter_hour, ten_minutes = (
        chance_alike((0.5, 2, 6), (4, 1 / 6, 0), own, draws=10_080) for own in parts
    )
    return Finding(
        f"{100 * whole:.0f} % at s = m, {100 * sixth:.1f} % at m/6, {100 * quarter_hour:.0f} % at m/96, "
        f"{100 * ten_minutes:.0f} % at m/144",
        min(whole, sixth, quarter_hour, ten_minutes) > 0.5,
        "for s = m, and for s of a quarter of an hour or less",
        partly=min(whole, quarter_hour, ten_minutes) > 0.5,
    )


@exactly("§3.2", "may map to different behavior patterns")
def identical_users() -> Finding:
    """Users with identical private profiles may map to different behaviour patterns."""
    profile = (0.5, 2, 6)
    apart = 1 - chance_alike(profile, profile, 1)
    return Finding(f"with probability {apart:.2f} at s = m", apart > 0)


@exactly("§3.2.1", "the likelihood of distinguishing users within a pattern", "E18")
def trivially() -> Finding:
    """Users within a pattern are distinguished by at most e^((m/s + 1)ε)."""
    losses = {
        parts: privacy.loss_by_width(OneBitMean(1, DAY, Fraction(DAY, parts)), parts + 1)
        for parts in (1, 2, 3, 20)
    }
    return Finding(
        f"loss {losses[1]:.2f} at s = m, {losses[20]:.2f} at m/20",
        all(loss <= n + 1 + 1e-9 for n, loss in losses.items()),
    )


@exactly("§3.2.1", "data collector knows with certainty that user's true counter value had changed")
def change_is_certain() -> Finding:
    """If the response changed, the collector knows with certainty that the value changed."""
    steady = [histories((value,) * 3, 6) for value in range(7)]
    changed = sum(chance for law in steady for seen, chance in law.items() if len(set(seen)) > 1)
    return Finding(f"probability {changed} without a change", not changed)


@exactly(
    "§3.2.2",
    "there is a very large set of sequences of private counter values",
    ours="very large: a hundredth of all",
)
def many_sequences() -> Finding:
    """For every behaviour pattern a very large set of sequences may map to it."""
    top = 6
    days = 4
    counts = dict[tuple[bool, ...], int]()
    for values in product(range(top + 1), repeat=days):
        for pattern in {tuple(v + a >= top for v in values) for a in range(top)}:
            own = tuple(bit != pattern[0] for bit in pattern)
            counts[own] = counts.get(own, 0) + 1
    least = min(counts.values())
    every = (top + 1) ** days
    return Finding(f"at least {least} of {every:,} sequences", least > every / 100)


@exactly("§3.2.2", "the actual nature of that behavior", "E30")
def lonely_nature() -> Finding:
    """Lonely users can only be identified as irregular; their behaviour remains uncertain."""
    return Finding(
        f"days of change show for {100 * float(P**2 + Q**2):.1f} %",
        False,
        "values remain uncertain, days of change do not",
    )


@exactly("§3.4", "It is easy to see that this mechanism is ε-LDP.")
def duchi_is_private() -> Finding:
    """A random bit for each of k buckets, with e^(ε/2), is ε-LDP."""
    over = max(BinFlip(e, 32).loss - e for e in EPSILONS)
    return Finding("loss at most ε" if over <= 0 else f"loss at most ε + {over:.0e}", over < 1e-12)


@exactly("§3.4", "can be naturally generalized here", "E18")
def patterns_of_histograms() -> Finding:
    """Definition 2 and Theorem 4 generalize to dBitFlipPM."""
    buckets = Buckets.even(DAY, 32)
    losses = {
        (bits, width): privacy.loss_by_width(DBitFlip(1, buckets, bits, "paper"), width)
        for bits in (1, 2, 4)
        for width in (1, 2, 5)
    }
    return Finding(
        f"loss {losses[4, 5]:g} for d = 4, w = 5",
        all(loss <= width + 1e-9 for (_, width), loss in losses.items()),
    )


@exactly("§4", "will not be able to learn with certainty that behavior of a user changed", "E11")
def not_certain() -> Finding:
    """With flips the collector cannot learn with certainty that a behaviour changed."""
    few, many = (
        privacy.loss_of_switch(DEPLOYED, FLIP, rounds // 2, rounds // 2).switched_over_constant
        for rounds in (10, 124)
    )
    return Finding(
        f"never certain, soon nearly so: loss {few:.1f} after 10, {many:.1f} after 124 rounds", many < inf
    )


@exactly(
    "§4, after Theorem 5",
    "would not be able to differentiate if the user's behavior changed at time t",
    "E9",
    f"not to differentiate: a loss below {ALIKE:g}",
)
def moved_in_time() -> Finding:
    """Whether the behaviour changed at t or within δ of it cannot be differentiated."""
    losses = [privacy.loss_of_moved_change(DEPLOYED, FLIP, moved) for moved in (1, 2, 3)]
    return Finding(
        f"loss {losses[0]:.2f} per round",
        losses[0] < ALIKE,
        "blurred, not hidden",
        partly=losses[0] < inf,
    )


@exactly("§4, Theorem 6", "the error of the mechanism presented above is at most")
def error_with_flips() -> Finding:
    """With flips the error is within Theorem 1's bound over 1 - 2γ."""
    covers = []
    for devices, epsilon, gamma, place in product((1000, 100_000), (0.1, 1, 5), ("0.1", "1/3"), (0, 0.5)):
        metric = Metric("seconds", OneBitMean(epsilon, DAY), Flip(gamma))
        covers.append(coverages(metric, devices, place, paper_bound(metric, devices, CONFIDENCE))[0])
    return Finding(f"covered {100 * min(covers):.2f} % or more, at 95 %", min(covers) >= CONFIDENCE)


@exactly("§5", "all the mechanisms we compare here provide one-time ε-LDP guarantee")
def all_private() -> Finding:
    """All mechanisms that are compared provide a one-time ε-LDP guarantee."""
    over = max(
        law.loss - e
        for e in EPSILONS
        for law in (Laplace(e, 1), KFlip(e, 32), BinFlip(e, 32), BinFlipPlus(e, 32))
    )
    return Finding("loss at most ε" if over <= 0 else f"loss at most ε + {over:.0e}", over < 1e-9)


@exactly("§6, proof of Theorem 7", "are non-zero", "E14")
def non_zero() -> Finding:
    """All x_i and y_i are non-zero."""
    return Finding("the worst pair has zeros", False, "non-negative")


@exactly("§3, and other places", "consider the partition of all integers into segments", "E26")
def cosmetic() -> Finding:
    """Six slips, such as one t for time and deviation, and overlapping segments."""
    return Finding("0 results change", False, "read as meant")
