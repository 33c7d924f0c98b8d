"""What remembering does: age in days (§3.3), shared responses (§3.4), and BinFlip+ at any ε (§2.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reticent.mechanisms import SCALE, Buckets, DBitFlip, Flip, OneBitMean
from reticent.plan import Metric, Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import estimate, paper_bound
from reticent_lab.fleet import AgeInDays, VectorisedFleet
from reticent_paper.baselines import BinFlipPlus, NaiveMemo
from reticent_paper.claims import (
    DAY,
    EPSILONS,
    ExperimentResult,
    Finding,
    NumberTable,
    Rows,
    Setting,
    claim,
    table,
)
from reticent_paper.values import generator

CENTURY = 36_525  # The range m: a hundred years, in days
ROUNDS = 365  # A year of daily rounds
DEVICES = 100_000
FLIP = 0.2  # To show what flips do to the form of the answers
STRICT = 1 - 1e-6  # Confidence of the bound that no round should leave
YEAR = 365.25

BUCKETS = 32
BITS = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class Year:
    """What a year of answers looked like."""

    devices: int
    of_the_form: int  #: Devices whose answers are z…z z̄…z̄ (or z…z)
    rounded_up: int  #: Devices whose rounded value changed within the year
    shown: int
    """Devices whose answers changed with it; for the others both remembered bits are equal (t = T)."""
    of_the_form_with_flips: int
    truth: NDArray[np.float64]
    estimates: NDArray[np.float64]
    covered: NDArray[np.bool_]
    bound: float  #: Theorem 1's bound at confidence `STRICT`

    @property
    def errors(self) -> NDArray[np.float64]:
        """How far each estimate is off."""
        return np.abs(self.estimates - self.truth)


def ages(setting: Setting) -> ExperimentResult:
    """A year of ages, asked every day."""
    year = simulate(setting, min(DEVICES, setting.fleets[0]))
    return ExperimentResult(
        "age-in-days",
        "Age in days",
        f"{year.devices:,} devices report their age in days, s = m = {CENTURY:,}, on {ROUNDS} days.",
        (answers_of_a_year(year),),
        (),
        (form(year), accuracy(year), transition(*every_offset())),
    )


@table("age-in-days")
def answers_of_a_year(year: Year) -> Rows:
    """Answers about age in days over a year (ε = 1, no flips)"""
    for what, count in {
        "all": year.devices,
        "answers z…z z̄…z̄ or z…z": year.of_the_form,
        "rounded value changed": year.rounded_up,
        "of these, answer changed (0 < t < T)": year.shown,
        f"of that form, were answers flipped with γ = {FLIP:g}": year.of_the_form_with_flips,
    }.items():
        yield {"what": what, "devices": count, "share": count / year.devices}


def simulate(setting: Setting, devices: int) -> Year:
    """The answers of all devices, bit for bit as the SDK answers, with and without flips."""
    metric = Metric("age", OneBitMean(1, CENTURY), unit="day")
    metrics = metric, replace(metric, name="flipped", flip=Flip(FLIP))
    fleet = VectorisedFleet(Plan("ages", 1, DAY, DAY, metrics), devices, setting.seed)
    draw = generator(setting.seed, "tables", "age-in-days")
    values = AgeInDays(CENTURY).values(devices, ROUNDS, draw)
    answers, flipped = (
        np.stack([fleet.bits(own.name, day, today)[:, 0] for day, today in enumerate(values)])
        for own in metrics
    )
    estimates = [estimate(metric, MeanCounts(devices, int(ones))) for ones in answers.sum(axis=1)]
    lower, upper = np.array([(of_round.lower, of_round.upper) for of_round in estimates]).T
    truth = values.mean(axis=1)
    return Year(
        devices=devices,
        of_the_form=int((changes(answers) <= 1).sum()),
        rounded_up=int((fleet.cells("age", values[0]) != fleet.cells("age", values[-1])).sum()),
        shown=int((changes(answers) == 1).sum()),
        of_the_form_with_flips=int((changes(flipped) <= 1).sum()),
        truth=truth,
        estimates=np.array([of_round.value for of_round in estimates]),
        covered=(lower <= truth) & (truth <= upper),
        bound=paper_bound(metric, devices, STRICT),
    )


def changes(answers: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How often each device's answers change: at most once is what z…z z̄…z̄ means."""
    return np.asarray((answers[1:] != answers[:-1]).sum(axis=0), dtype=np.int64)


def every_offset(top: int = CENTURY, rounds: int = ROUNDS) -> tuple[bool, tuple[int, ...]]:
    """Whether, for several ages, every day of the year is the day of change for exactly one of the m alphas."""
    alphas = np.arange(top)
    looked_at = (0, top // 3, top // 2, top - rounds - 1)
    even = True
    for age in looked_at:
        day = top - age - alphas  # the first day on which age + day + alpha reaches m
        within = np.bincount(day[(day >= 1) & (day <= rounds)], minlength=rounds + 1)[1:]
        even &= bool((within == 1).all())
    return even, looked_at


@claim("§3.3", "Each user necessarily responds with a sequence of bits that has form")
def form(year: Year) -> Finding:
    """Collecting age in days with s = m, each user answers z^t z̄^(T-t)."""
    return Finding(
        f"{year.of_the_form:,} of {year.devices:,} devices",
        year.of_the_form == year.devices,
        "some device's rounded value falls back",
    )


@claim(
    "§3.3",
    "we can collect such data for T rounds with high accuracy",
    ours="high accuracy: within Theorem 1's bound at δ = 1e-6",
)
def accuracy(year: Year) -> Finding:
    """The mean of such a counter is collected for T rounds with high accuracy."""
    worst = float(year.errors.max())
    return Finding(
        f"error {worst / YEAR:.2f} of {CENTURY / YEAR:.0f} years",
        worst <= year.bound,
        "the error leaves the bound",
    )


@claim("§3.3", "data collector only gets to learn the transition point", "", "exact")
def transition(even: bool, looked_at: tuple[int, ...]) -> Finding:
    """The collector learns only the day when age passes m - α, which is safe."""
    measured = f"the same law at {len(looked_at)} ages" if even else "laws differ"
    return Finding(measured, even, "the day of change depends on the age")


def histograms() -> ExperimentResult:
    """Remembered histograms: who shares a response, what k remembered bits betray, and BinFlip+."""
    shared = sharing()
    naive = betrayal()
    plus = bin_flip_plus()
    return ExperimentResult(
        "memo",
        "Remembered histograms",
        f"What {BUCKETS} remembered responses tell an observer who once knew the bucket.",
        tables=(shared, naive, plus),
        claims=(
            several_share(shared),
            strongest_with_one_bit(shared),
            naive_leaks(naive),
            only_small_epsilon(plus),
        ),
    )


def expected_sharers(mechanism: DBitFlip) -> float:
    """
    How many of the k - d buckets that a device is not asked about share the likeliest response of one it is.

    An unasked bucket draws it with probability q·p^(d-1), where p = e^h/(e^h + 1) and q = 1 - p.
    """
    high = mechanism.response.high / SCALE
    unasked = len(mechanism.buckets) - mechanism.width
    return float(unasked * (1 - high) * high ** (mechanism.width - 1))


@table("shared-responses")
def sharing() -> Rows:
    """Buckets that share the likeliest response of a bucket asked about (k = 32)"""
    for epsilon in EPSILONS:
        for bits in BITS:
            mechanism = DBitFlip(epsilon, Buckets.even(DAY, BUCKETS), bits, "paper")
            yield {
                "ε": epsilon,
                "d": bits,
                "k/2^d": BUCKETS / 2**bits,
                "expected, one memo per bucket": expected_sharers(mechanism),
                "unasked buckets, one memo per class": BUCKETS - bits,
            }


@table("naive-memo")
def betrayal() -> Rows:
    """k-bit responses remembered per bucket (k = 32)"""
    for epsilon in EPSILONS:
        memo = NaiveMemo(epsilon, BUCKETS)
        yield {
            "ε": epsilon,
            "chance that a response betrays its bucket": memo.probability_of_betrayal,
            "expected sharers": memo.expected_sharers,
        }


@table("bin-flip-plus")
def bin_flip_plus() -> Rows:
    """BinFlip+ with acceptance 1/(2 cosh(ε/2))"""
    for epsilon in EPSILONS:
        plus = BinFlipPlus(epsilon, BUCKETS)
        yield {
            "ε": epsilon,
            "exact loss": plus.loss,
            "accepted": plus.acceptance,
            "n·Var of a light bucket": float(plus.variance(0)),
        }


@claim("§3.4", "buckets are mapped to the same response", "E20", "exact", "Ω(k/2^d): at least half of it")
def several_share(table: NumberTable) -> Finding:
    """Ω(k/2^d) buckets are mapped to the same response."""
    columns = (table.numbers(name) for name in ("ε", "d", "k/2^d", "expected, one memo per bucket"))
    rows = list(zip(*columns, strict=True))
    enough = [row for row in rows if row[3] >= row[2] / 2]
    kept = sorted({row[0] for row in rows} - {row[0] for row in rows if row not in enough})
    return Finding(
        f"in {len(enough)} of {len(rows)} settings",
        len(enough) == len(rows),
        f"for ε = O(1): up to {max(kept, default=0):g}",
    )


@claim("§3.4", "This protection is the strongest when d = 1.", "", "exact")
def strongest_with_one_bit(table: NumberTable) -> Finding:
    """The protection by shared responses is strongest when d = 1."""
    best: dict[float, tuple[float, float]] = {}
    columns = (table.numbers(name) for name in ("ε", "d", "expected, one memo per bucket"))
    for epsilon, bits, sharers in zip(*columns, strict=True):
        best[epsilon] = max(best.get(epsilon, (-1.0, 0.0)), (sharers, -bits))
    right = [epsilon for epsilon, (_, bits) in best.items() if bits == -1]
    return Finding(
        f"at {len(right)} of {len(best)} values of ε",
        len(right) == len(best),
        "not at every ε",
        partly=bool(right),
    )


@claim("§3.4", "with almost 100% probability", "", "exact", "almost 100 %: above 99 %")
def naive_leaks(table: NumberTable) -> Finding:
    """With k remembered bits a response seen once betrays its bucket with almost 100 %."""
    chances = table.numbers("chance that a response betrays its bucket")
    return Finding(
        f"{100 * min(chances):.2f} % or more", min(chances) > 0.99, "depends on ε", partly=max(chances) > 0.99
    )


@claim("§2.2, footnote", "we can optimize the parameters to loose the constraint", "E24", "exact")
def only_small_epsilon(table: NumberTable) -> Finding:
    """The generic one-bit protocol on BinFlip only works for ε ≤ 2."""
    epsilons, losses = table.numbers("ε"), table.numbers("exact loss")
    private = [own for own, loss in zip(epsilons, losses, strict=True) if loss <= own * (1 + 1e-9)]
    return Finding(
        f"loss ≤ ε up to ε = {max(private, default=0):g}",
        not any(epsilon > 2 for epsilon in private),
        "a fitting constant exists for every ε",
    )
