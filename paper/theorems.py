"""
What the paper proves or says in sections 1 to 4 and 6, sentence by sentence, computed from the integers that devices
compare with, over all outcomes: no sampling. What it says of data, figures and bounds is in the other modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from math import comb, exp, inf, log

import numpy as np
from scipy.stats import binom

from paper.claims import DAY, EPSILONS, Claim, Finding, Result, Rows, Setting, Table, claim, table
from paper.losses import DEPLOYED, FLIP
from paper.values import generator
from reticent import privacy
from reticent.estimates import paper_bound
from reticent.lab.baselines import BinFlip, BinFlipPlus, KFlip, Laplace
from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, OneBitMean
from reticent.plan import Metric

BIT = OneBitMean(1, 1)
P, Q = (Fraction(threshold, SCALE) for threshold in (BIT.response.high, BIT.response.low))
"""The chances of a 1 at the top and at the bottom of the range, at ε = 1."""

Law = dict[tuple[int, ...], Fraction]
"""The chance of each sequence of answers."""

LIKELY = 0.5
exactly = partial(claim, check="exact")


def run(setting: Setting) -> Result:
    """Every sentence that can be computed; of the setting only the seed matters."""
    near, hidden = nearly_constant(), auxiliary(setting.seed)
    judged: Sequence[Callable[[], Claim]] = (
        fresh_noise, one_bit_is_private, one_bit_is_unbiased, randomized_response, lost_factor, d_bits_are_private,
        all_buckets, upside_down, enough_reads, memo_is_not_private, only_that_it_changed, memo_of_every_value,
        midpoints, step_divides_range, rounding, weights, likely_alike, identical_users, trivially, change_is_certain,
        many_sequences, lonely_nature, duchi_is_private, patterns_of_histograms, not_certain, moved_in_time,
        error_with_flips, all_private, non_zero, cosmetic,
    )  # fmt: skip
    return Result(
        "theorems",
        "Theorems and sentences, computed",
        "Each by enumeration or from the thresholds of the devices; ε = 1 where nothing else is said.",
        tables=(near, hidden),
        claims=(*(one() for one in judged), approximately_consistent(near), smaller_step(hidden)),
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
    """
    Devices whose values stay in a band of width η: the least δ of (ε, δ), over all pairs of histories (s = m = 24)

    Every band, and every pair of three values in it, over three rounds.
    """
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


@claim("§1.2, component 3", "E27", "exact")
def approximately_consistent(table: Table) -> Finding:
    """If the counter value of a user remains approximately consistent, the user is guaranteed ε-DP over many rounds."""
    shares, least = table.numbers("η/s"), table.numbers("least δ, by enumeration")
    proved = all(delta <= share + 1e-12 for share, delta in zip(shares, least, strict=True))
    return Finding(
        f"For values in a band of width η the answers of any number of rounds are (ε, δ)-DP with δ = η/s at most; "
        f"exactly δ = (p² + q²)·η/s, {least[-1]:.3f} for η/s = {shares[-1]:.3f}. With δ = 0 there is no bound.",
        max(least) == 0,
        "(ε, η/s)-DP, not ε-DP: a rounding point may lie in the band",
        partly=proved,
    )


@table("auxiliary")
def auxiliary(seed: int) -> Rows:
    """
    What one answer tells an attacker who knows a device's answer for every value, by step (ε = 1, uniform values)

    The attacker has learned which values a device answers with 1, and sees the answer of another day.
    """
    draw, devices = generator(seed, "theorems", "auxiliary"), 20_000
    for parts in (1, 2, 3, 20):
        mechanism = OneBitMean(1, DAY, Fraction(DAY, parts))
        chances = np.array(mechanism.cell_thresholds) / SCALE
        memo = draw.random((devices, parts + 1)) < chances
        places = (np.arange(0, 1, 1 / 240) + 1 / 480) * parts
        cells = (places + draw.random((devices, 1))).astype(int)
        bits = np.take_along_axis(memo, cells, axis=1)
        ones, upper = bits.mean(axis=1), bits[:, 120:].mean(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            told = -np.nan_to_num(ones * np.log2(ones)) - np.nan_to_num((1 - ones) * np.log2(1 - ones))
        right = 0.5 + np.abs(upper - (2 * ones - upper)) / 2
        yield {
            "m/s": parts,
            "half of the range guessed": float(right.mean()),
            "bits told about the value": float(told.mean()),
            "same-pattern loss, every cell visited": privacy.loss_by_width(mechanism, parts + 1),
        }


@claim("§3.2.1", "E28", "measured", "an advantage: the half guessed less often, and no more told")
def smaller_step(table: Table) -> Finding:
    """Smaller s may be advantageous to avoid certain attacks based on auxiliary information."""
    guessed, told, losses = (table.numbers(column) for column in table.columns[1:])
    fewer, less = guessed[-1] < guessed[0], told[-1] <= told[0]
    return Finding(
        f"From s = m to s = m/20 the half of the range is guessed for {guessed[-1]:.1%} instead of {guessed[0]:.1%}, "
        f"but an answer tells {told[-1]:.2f} instead of {told[0]:.2f} bits about the value, and the same-pattern loss "
        f"is {losses[-1]:.1f} instead of {losses[0]:.1f}.",
        fewer and less,
        "for coarse questions only; fine ones are answered better, and more changes show",
        partly=fewer,
    )


@exactly("§1.2")
def fresh_noise() -> Finding:
    """T independent executions of an ε-LDP mechanism are indistinguishable by a factor of up to e^(Tε) only."""
    rounds, one = 31, log(P / Q)
    return Finding(f"Exactly {rounds * one:.0f} in {rounds} rounds at ε = 1: T·ε is attained.", one <= 1)


def worst_ratio(shares: Iterable[Fraction]) -> float:
    """The largest log-ratio of the chances of one answer among these chances of a 1."""
    chances = sorted(shares)
    return log(max(chances[-1] / chances[0], (1 - chances[0]) / (1 - chances[-1])))


@exactly("§2.1, Theorem 1 and Lemma 1")
def one_bit_is_private() -> Finding:
    """1BitMean preserves ε-LDP of every user."""
    over = max(
        worst_ratio(Fraction(cell, SCALE) for cell in OneBitMean(e, 100, 1).cell_thresholds) - e
        for e in EPSILONS
    )
    return Finding(
        f"The loss exceeds ε by {over:.0e} at most, at {len(EPSILONS)} values of ε.", over <= 1e-12
    )


@exactly("§2.1, Lemma 2")
def one_bit_is_unbiased() -> Finding:
    """The estimate of the mean is unbiased."""
    channel = Flip(0).channel(BIT.response)
    cells = OneBitMean(1, 100, 1).cell_thresholds
    bias = max(
        abs((Fraction(cell, SCALE) - channel.low) / channel.contrast - Fraction(value, 100))
        for value, cell in enumerate(cells)
    )
    return Finding(
        f"The bias is at most {float(bias):.0e} of the range, from rounding to 64 bits.",
        bias < Fraction(1, 2**60),
    )


@exactly("§2.1")
def randomized_response() -> Finding:
    """For values 0 and m 1BitMean is the basic randomizer of Bassily and Smith: randomized response."""
    return Finding(f"P(1) is {float(Q):.4f} and {float(P):.4f}, which add up to 1.", P + Q == 1)


@exactly("§2.1, proof of Lemma 3", "E4")
def lost_factor() -> Finding:
    """In the second tail bound: Pr ≤ e^(-2t²/n)."""
    miss, printed = 1.0, exp(-2 * 0.5**2)
    return Finding(
        f"One fair bit is always 1/2 from its mean; the printed bound allows {printed:.2f}, the one before it "
        f"{2 * printed:.2f}.",
        miss <= printed,
        "2·e^(-2t²/n): the factor is in the lines before and after",
        misprint=True,
    )


def d_bit_loss(bits: int, epsilon: float) -> float:
    """The largest log-ratio over all answers about d of 6 buckets, by enumeration."""
    response = DBitFlip(epsilon, Buckets.even(6, 6), bits, "paper").response
    high, low = Fraction(response.high, SCALE), Fraction(response.low, SCALE)

    def chance(bucket: int, seen: tuple[int, ...]) -> Fraction:
        answer = Fraction(1)
        for place, bit in enumerate(seen):
            one = high if place == bucket else low
            answer *= one if bit else 1 - one
        return answer

    laws = [[chance(bucket, seen) for seen in product((0, 1), repeat=bits)] for bucket in range(6)]
    return max(log(a / b) for one in laws for other in laws for a, b in zip(one, other, strict=True))


@exactly("§2.2, Theorem 2", "E8")
def d_bits_are_private() -> Finding:
    """The mechanism dBitFlip preserves ε-LDP for each user."""
    losses = {bits: d_bit_loss(bits, 1) for bits in (1, 2, 4, 6)}
    listed = ", ".join(f"{loss:.2f} for d = {bits}" for bits, loss in losses.items())
    return Finding(
        f"Exactly {listed} at ε = 1: half of ε is left unused with one bit.",
        max(losses.values()) <= 1 + 1e-12,
    )


@exactly("§2.2")
def all_buckets() -> Finding:
    """When d = k, dBitFlip is exactly the mechanism of Duchi et al."""
    apart = max(
        abs(
            Flip(0).channel(DBitFlip(e, Buckets.even(32, 32), 32, "paper").response).high
            - BinFlip(e, 32).channel.high
        )
        for e in EPSILONS
    )
    return Finding(f"Both have the same chance of a 1, to {float(apart):.0e}.", not apart)


@exactly("§2.2, proof of Theorem 2", "E5")
def upside_down() -> Finding:
    """The number of users who answer about a bucket is n_v = k/(nd) in expectation."""
    n, k, d = 6, 3, 1
    mean = sum(Fraction(answers) * comb(n, answers) * Fraction(d, k) ** answers * Fraction(k - d, k) ** (n - answers)
               for answers in range(n + 1))  # fmt: skip
    return Finding(
        f"With n = {n}, k = {k} and d = {d} it is {mean} = nd/k, not {Fraction(k, n * d)}.",
        mean == Fraction(k, n * d),
        "n_v = nd/k, as the sentence before the theorem has it",
        misprint=True,
    )


@exactly("§3", ours="high accuracy: the end of the range guessed for 99 %")
def enough_reads() -> Finding:
    """With fresh noise the collector will, after a number of rounds, know x with high accuracy."""
    right = {rounds: float(binom.sf(rounds // 2, rounds, float(P))) for rounds in (1, 7, 31, 365)}
    listed = ", ".join(f"{share:.1%} after {rounds}" for rounds, share in right.items())
    return Finding(f"Whether a value is 0 or m is guessed for {listed} rounds, at ε = 1.", right[365] > 0.99)


@exactly("§3")
def memo_is_not_private() -> Finding:
    """Memoization violates DP: a changing user is told from a constant one, however small ε is."""
    steady, changing = histories((0, 0), 2), histories((0, 2), 2)
    certain = [seen for seen in changing if not steady.get(seen)]
    share = float(sum(changing[seen] for seen in certain))
    return Finding(
        f"A change of answers has probability {share:.3f} for one who goes from 0 to m and 0 for one who stays.",
        bool(certain),
    )


@exactly("§3", "E29")
def only_that_it_changed() -> Finding:
    """A changed response only indicates that the value changed, not what it was and not what it is."""
    up, down = histories((0, 2), 2), histories((2, 0), 2)
    odds = up[0, 1] / down[0, 1]
    return Finding(
        f"An answer that goes from 0 to 1 is {float(odds):.2f} = e^(2ε) times likelier from 0 → m than from m → 0.",
        odds == 1,
        "both values are hidden by e^(2ε) together, not altogether",
        partly=odds <= (P / Q) ** 2,
    )


@exactly("§3")
def memo_of_every_value() -> Finding:
    """Memoization without rounding adds no protection to a value that varies a little."""
    days, fine = 31, OneBitMean(1, DAY, 1)
    loss = sum(log(fine.cell_thresholds[DAY - day] / fine.cell_thresholds[day]) for day in range(days))
    return Finding(
        f"One memo per second, and another second on each of {days} days: a loss of {loss:.2f} between both ends of "
        f"the range, where fresh noise loses {days}.",
        loss > 0.99 * days,
    )


@exactly("§3")
def midpoints() -> Finding:
    """Rounding to midpoints: where all values are ℓs + 1 every user responds based on ℓs + s/2."""
    step = DAY // 20
    return Finding(
        f"With s = m/20 the estimate is off by s/2 - 1 = {step // 2 - 1:,} of {DAY:,} s.", step // 2 > 1
    )


@exactly("§3.1, step 1", "E16")
def step_divides_range() -> Finding:
    """It is assumed that s divides m."""
    top, step, cell = 50, 20, 60
    above = Q + Fraction(cell, top) * (P - Q)
    loss = log(above / Q)
    return Finding(
        f"It must: m = {top}, s = {step} rounds to {cell} > m, and the loss is {loss:.3f} at ε = 1.", loss > 1
    )


@exactly("§3.1, Lemma 4", "E15")
def rounding() -> Finding:
    """For integer or real counters α-point rounding with α in {0, …, s - 1} keeps the expectation."""
    step = 6

    def mean(value: Fraction) -> Fraction:
        return Fraction(sum(step * (value + alpha >= step) for alpha in range(step)), step)

    whole = all(mean(Fraction(value)) == value for value in range(step))
    half = mean(Fraction(1, 2)) - Fraction(1, 2)
    return Finding(
        f"Exact for integers; for x = 0.5 it is off by {float(half):+.1f}: real values are rounded down first.",
        whole and not half,
        "true for integers; for real values α must be continuous",
        partly=whole,
    )


@exactly("§3.1, proof of Theorem 3", "E3")
def weights() -> Finding:
    """Pr[b = 1] weighs both L and R with b/(a + b)."""
    a, b = Fraction(1), Fraction(3)
    return Finding(
        f"For a = 1 and b = 3 the weights add up to {2 * b / (a + b)}.",
        2 * b / (a + b) == 1,
        "a/(a + b) for R; the following lines have it",
        misprint=True,
    )


def patterns_of(values: Sequence[float], parts: int, draws: int = 2520) -> list[tuple[int, ...]]:
    """The pattern of these hours (of 24) for each of equally spaced alphas."""
    step = 24 / parts
    answers = []
    for draw in range(draws):
        cells = [int((value + (draw + 0.5) / draws * step) // step) for value in values]
        names = list(dict.fromkeys(cells))
        answers.append(tuple(names.index(cell) for cell in cells))
    return answers


def chance_alike(first: Sequence[float], second: Sequence[float], parts: int) -> float:
    """How likely two users with these values have the same pattern."""
    one, other = (patterns_of(values, parts) for values in (first, second))
    return sum(one.count(own) * other.count(own) for own in set(one)) / len(one) ** 2


@exactly("§3.2", ours="likely: with a chance above 1/2")
def likely_alike() -> Finding:
    """30 minutes, 2 hours and 6 hours, and 4 hours, 10 minutes and 0, will likely map to one pattern."""
    alike = {parts: chance_alike((0.5, 2, 6), (4, 1 / 6, 0), parts) for parts in (1, 2, 3, 20)}
    listed = ", ".join(
        f"{share:.0%} for s = {'m' if parts == 1 else f'm/{parts}'}" for parts, share in alike.items()
    )
    return Finding(
        f"With a chance of {listed}.",
        min(alike.values()) > LIKELY,
        "for large s only",
        partly=alike[1] > LIKELY,
    )


@exactly("§3.2")
def identical_users() -> Finding:
    """Some users with identical private profiles may map to different behaviour patterns."""
    profile = (0.5, 2, 6)
    apart = 1 - chance_alike(profile, profile, 1)
    return Finding(f"Two users with the profile above do with a chance of {apart:.0%}, s = m.", apart > 0)


@exactly("§3.2.1", "E18")
def trivially() -> Finding:
    """Users within a pattern are told apart with a likelihood of at most e^((m/s + 1)ε)."""
    losses = {
        parts: privacy.loss_by_width(OneBitMean(1, DAY, Fraction(DAY, parts)), parts + 1)
        for parts in (1, 2, 3, 20)
    }
    listed = ", ".join(f"{loss:.2f} of {parts + 1}" for parts, loss in losses.items())
    return Finding(
        f"Exactly {listed} for m/s = 1, 2, 3, 20.", all(loss <= n + 1 + 1e-9 for n, loss in losses.items())
    )


@exactly("§3.2.1")
def change_is_certain() -> Finding:
    """If the response has changed, the collector knows with certainty that the value has changed."""
    steady = [histories((value,) * 3, 6) for value in range(7)]
    changed = any(chance for law in steady for seen, chance in law.items() if len(set(seen)) > 1)
    return Finding("No constant value ever gives two different answers, without flips.", not changed)


@exactly("§3.2.2", ours="very large: a hundredth of all")
def many_sequences() -> Finding:
    """For every behaviour pattern there is a very large set of sequences that may map to it."""
    top, days, counts = 6, 4, dict[tuple[bool, ...], int]()
    for values in product(range(top + 1), repeat=days):
        for pattern in {tuple(v + a >= top for v in values) for a in range(top)}:
            own = tuple(bit != pattern[0] for bit in pattern)
            counts[own] = counts.get(own, 0) + 1
    least, every = min(counts.values()), (top + 1) ** days
    return Finding(
        f"At least {least} of {every:,} sequences for each of {len(counts)} patterns (m = s = {top}, {days} days).",
        least > every / 100,
    )


@exactly("§3.2.2", "E30")
def lonely_nature() -> Finding:
    """Lonely users can only be identified as irregular; the nature of their behaviour remains uncertain."""
    shown = float(P**2 + Q**2)
    return Finding(
        f"Between two users of the pattern the loss is 2ε at most. The days of every change, which are most of an "
        f"irregular behaviour, show for {shown:.1%} of them.",
        False,
        "which values they are remains uncertain; when they change does not",
        partly=True,
    )


@exactly("§3.4")
def duchi_is_private() -> Finding:
    """A random bit for each of k buckets, with e^(ε/2), is ε-LDP."""
    over = max(BinFlip(e, 32).loss - e for e in EPSILONS)
    return Finding(f"The loss exceeds ε by {over:.0e} at most.", over < 1e-12)


@exactly("§3.4", "E18")
def patterns_of_histograms() -> Finding:
    """Definition 2 and Theorem 4 can be naturally generalized to dBitFlipPM."""
    buckets = Buckets.even(DAY, 32)
    losses = {
        (bits, width): privacy.loss_by_width(DBitFlip(1, buckets, bits, "paper"), width)
        for bits in (1, 2, 4)
        for width in (1, 2, 5)
    }
    return Finding(
        f"The exact loss is at most w·ε, and min(w, d)·ε for d ≥ 2: {losses[4, 5]:g} for d = 4, w = 5.",
        all(loss <= width + 1e-9 for (_, width), loss in losses.items()),
    )


@exactly("§4", "E11")
def not_certain() -> Finding:
    """With flips the collector is not able to learn with certainty that a behaviour changed."""
    switches = {
        rounds: privacy.loss_of_switch(DEPLOYED, FLIP, rounds // 2, rounds // 2).switched_over_constant
        for rounds in (2, 10, 30, 124)
    }
    listed = ", ".join(f"{loss:.1f} in {rounds}" for rounds, loss in switches.items())
    return Finding(
        f"At γ = 0.2 a change half-way is told with a loss of {listed} rounds: finite, and without a limit.",
        switches[124] < 3,
        "never certain, and as good as certain after a few rounds: the loss grows by Λ/2 = 0.69 per round",
        partly=all(loss < inf for loss in switches.values()),
    )


@exactly("§4, after Theorem 5", "E9")
def moved_in_time() -> Finding:
    """The collector is not able to differentiate if the behaviour changed at t or at t′ within a small δ."""
    losses = [privacy.loss_of_moved_change(DEPLOYED, FLIP, moved) for moved in (1, 2, 3)]
    listed = ", ".join(f"{loss:.2f}" for loss in losses)
    return Finding(
        f"At γ = 0.2 the loss is {listed} for δ = 1, 2, 3 rounds.",
        losses[0] < 0.1,
        "the odds shift by up to (1 - γ)/γ = 4 per round: it blurs the time, it does not hide it",
        partly=True,
    )


@exactly("§4, Theorem 6")
def error_with_flips() -> Finding:
    """With probability 1 - δ the error with flips is within the bound of Theorem 1 over 1 - 2γ."""
    covers = []
    for devices, epsilon, gamma, place in product((1000, 100_000), (0.1, 1, 5), ("0.1", "1/3"), (0, 0.5)):
        metric = Metric("part", OneBitMean(epsilon, 1), Flip(gamma))
        channel = metric.channel
        share, reach = (
            float(channel.share(place)),
            paper_bound(metric, devices, 0.95) * float(channel.contrast),
        )
        low, high = (np.ceil(devices * (share - reach)), np.floor(devices * (share + reach)))
        covers.append(float(binom.cdf(high, devices, share) - binom.cdf(low - 1, devices, share)))
    return Finding(
        f"At 95 % it holds with probability {min(covers):.4f} or more in {len(covers)} settings.",
        min(covers) >= 0.95,
    )


@exactly("§5")
def all_private() -> Finding:
    """All mechanisms that are compared provide a one-time ε-LDP guarantee."""
    over = max(
        law.loss - e
        for e in EPSILONS
        for law in (Laplace(e, 1), KFlip(e, 32), BinFlip(e, 32), BinFlipPlus(e, 32))
    )
    return Finding(
        f"The exact loss exceeds ε by {over:.0e} at most, BinFlip+ at its best included.", over < 1e-9
    )


@exactly("§6, proof of Theorem 7", "E14")
def non_zero() -> Finding:
    """All x_i and y_i are non-zero."""
    return Finding(
        "The worst pair, x = (0, m/(t-1), …) and y = (m, 0, …, 0), is of zeros.",
        False,
        "non-negative",
        misprint=True,
    )


@exactly("§3, and other places", "E26")
def cosmetic() -> Finding:
    """Six slips, such as t for both time and deviation, segments that overlap, and "Be formula"."""
    return Finding("They change nothing.", False, "read as meant", misprint=True)
