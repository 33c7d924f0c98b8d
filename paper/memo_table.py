"""Remembered histograms: how many buckets share a response (§3.4), and BinFlip+ at any ε (§2.2)."""

from __future__ import annotations

from paper.experiment import DAY, EPSILONS, Claim, Result, Table, Verdict
from reticent.lab.baselines import BinFlipPlus, NaiveMemo
from reticent.mechanisms import SCALE, Buckets, DBitFlip

BUCKETS = 32
BITS = (1, 2, 4, 8)


def result() -> Result:
    """Tables of remembered histograms, and the claims about them."""
    shared, naive, plus = sharing(), betrayal(), bin_flip_plus()
    return Result(
        name="memo",
        title="Remembered histograms",
        summary=f"What {BUCKETS} remembered responses tell an observer who once knew the bucket.",
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

    That response has a 1 for its own bucket and 0 for the d - 1 others; a bucket that is not asked about
    draws it with probability q·p^(d-1), where p = e^h/(e^h + 1) and q = 1 - p. One response per bucket, as
    printed.

    >>> four = DBitFlip(1, Buckets.even(DAY, 32), 4, "paper")
    >>> round(expected_sharers(four), 2)
    2.55
    """
    high = mechanism.response.high / SCALE
    unasked = len(mechanism.buckets) - mechanism.width
    return float(unasked * (1 - high) * high ** (mechanism.width - 1))


def sharing() -> Table:
    """Expected sharers by ε and d, against k/2^d."""
    rows = []
    for epsilon in EPSILONS:
        for bits in BITS:
            paper = DBitFlip(epsilon, Buckets.even(DAY, BUCKETS), bits, "paper")
            rows.append((epsilon, bits, BUCKETS / 2**bits, expected_sharers(paper), BUCKETS - bits))
    return Table(
        "shared-responses",
        f"Buckets that share the likeliest response of a bucket asked about (k = {BUCKETS})",
        ("ε", "d", "k/2^d", "expected, one memo per bucket", "unasked buckets, one memo per class"),
        tuple(rows),
    )


def betrayal() -> Table:
    """The naive memo of k bits: how sure an observer is."""
    return Table(
        "naive-memo",
        f"k-bit responses remembered per bucket (k = {BUCKETS})",
        ("ε", "chance that a response betrays its bucket", "expected sharers"),
        tuple(
            (epsilon, naive.probability_of_betrayal, naive.expected_sharers)
            for epsilon in EPSILONS
            for naive in [NaiveMemo(epsilon, BUCKETS)]
        ),
    )


def bin_flip_plus() -> Table:
    """BinFlip+ with the right constant: its loss at every ε."""
    return Table(
        "bin-flip-plus",
        "BinFlip+ with acceptance 1/(2 cosh(ε/2))",
        ("ε", "exact loss", "accepted", "n·Var of a light bucket"),
        tuple(
            (epsilon, plus.loss, plus.acceptance, float(plus.variance(0)))
            for epsilon in EPSILONS
            for plus in [BinFlipPlus(epsilon, BUCKETS)]
        ),
    )


def several_share(table: Table) -> Claim:
    """§3.4: Ω(k/2^d) buckets share a response."""
    columns = (table.figures(name) for name in ("ε", "d", "k/2^d", "expected, one memo per bucket"))
    rows = list(zip(*columns, strict=True))
    enough = [row for row in rows if row[3] >= row[2] / 2]
    kept = sorted({row[0] for row in rows} - {row[0] for row in rows if row not in enough})
    right = len(enough) == len(rows)
    least = min(rows, key=lambda row: row[3] / row[2])
    return Claim(
        "§3.4",
        "Ω(k/2^d) buckets are mapped to the same response, which protects against one known day.",
        f"At least half of k/2^d are expected in {len(enough)} of {len(rows)} settings; at ε = "
        f"{least[0]:g} and d = {least[1]:.0f} it is {least[3]:.2g} where k/2^d = {least[2]:g}.",
        Verdict.HOLDS if right else Verdict.CONDITION if enough else Verdict.FAILS,
        "" if right else f"ε = O(1): for all d up to ε = {max(kept, default=0):g}",
        "E20",
    )


def strongest_with_one_bit(table: Table) -> Claim:
    """§3.4: the protection is strongest when d = 1."""
    best: dict[float, tuple[float, float]] = {}
    columns = (table.figures(name) for name in ("ε", "d", "expected, one memo per bucket"))
    for epsilon, bits, sharers in zip(*columns, strict=True):
        best[epsilon] = max(best.get(epsilon, (-1.0, 0.0)), (sharers, -bits))
    right = [epsilon for epsilon, (_, bits) in best.items() if bits == -1]
    return Claim(
        "§3.4",
        "The protection by shared responses is strongest when d = 1.",
        f"Most buckets share with d = 1 at {len(right)} of {len(best)} values of ε.",
        Verdict.HOLDS if len(right) == len(best) else Verdict.CONDITION if right else Verdict.FAILS,
        "" if len(right) == len(best) else f"at ε = {', '.join(f'{each:g}' for each in right)}",
    )


def naive_leaks(table: Table) -> Claim:
    """§3.4: with k remembered bits the bucket is inferred with almost 100 % probability."""
    chances = table.figures("chance that a response betrays its bucket")
    right = min(chances) > 0.99
    return Claim(
        "§3.4",
        "Remembering k bits per bucket, a response seen once with its bucket betrays it with almost 100 %.",
        f"{100 * min(chances):.6f} % to {100 * max(chances):.6f} % for ε = {EPSILONS[0]:g} to "
        f"{EPSILONS[-1]:g}.",
        Verdict.HOLDS if right else Verdict.CONDITION if max(chances) > 0.99 else Verdict.FAILS,
        "" if right else "depends on ε",
    )


def only_small_epsilon(table: Table) -> Claim:
    """§2.2, footnote: the one-bit protocol works for ε ≤ 2 only."""
    epsilons, losses = table.figures("ε"), table.figures("exact loss")
    private = [e for e, loss in zip(epsilons, losses, strict=True) if loss <= e * (1 + 1e-9)]
    beyond = [epsilon for epsilon in private if epsilon > 2]
    return Claim(
        "§2.2, footnote",
        "The generic one-bit protocol on BinFlip only works for ε ≤ 2.",
        f"With the acceptance constant 1/(2 cosh(ε/2)) its exact loss is at most ε at {len(private)} of "
        f"{len(epsilons)} values, among them ε = "
        f"{', '.join(f'{each:g}' for each in beyond) or 'none above 2'}.",
        Verdict.FAILS if beyond else Verdict.HOLDS,
        "the constant can be chosen so that it works for every ε" if beyond else "",
        "E24",
    )
