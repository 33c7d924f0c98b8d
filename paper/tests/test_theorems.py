"""Sentences of the paper that are computed: against independent enumeration, and verdicts that can turn."""

from fractions import Fraction
from itertools import product
from math import exp, log, tanh

import pytest

from reticent_paper import after, theorems
from reticent_paper.claims import ClaimVerdict, NumberTable, Setting

P = exp(1) / (exp(1) + 1)
Q = 1 - P


@pytest.fixture(scope="module")
def result():
    return theorems.run(Setting())


@pytest.fixture(scope="module")
def claims(result):
    return {claim.says.split()[0] + " " + claim.place: claim for claim in result.claims}


def test_every_sentence_is_judged_once_and_names_its_place(result):
    assert len(result.claims) == len({(claim.place, claim.says) for claim in result.claims}) == 32
    assert all(claim.place.startswith("§") and claim.measured for claim in result.claims)
    assert {claim.check for claim in result.claims} == {"exact", "measured"}
    for claim in result.claims:
        assert claim.condition or claim.verdict is ClaimVerdict.HOLDS, claim.says


def test_the_verdicts_are_those_of_the_errata(result):
    """MATHS 1: misprints and wrong statements needed correcting; what is confirmed there holds here."""
    corrected = {claim.erratum for claim in result.claims if claim.verdict is ClaimVerdict.CORRECTED}
    conditions = {claim.erratum for claim in result.claims if claim.verdict is ClaimVerdict.CONDITION}
    assert corrected == {"E3", "E4", "E5", "E14", "E26"} | {"E15", "E27", "E28", "E30"}
    assert conditions == {"", "E9", "E29"}


def test_answers_of_a_history_by_brute_force():
    """A value above m - alpha is answered from the memo of m: written out once more, in floating point."""
    top, values = 5, (1, 4, 1)
    law = dict.fromkeys(product((0, 1), repeat=3), 0.0)
    for alpha, low, high in product(range(top), (0, 1), (0, 1)):
        seen = tuple(high if value >= top - alpha else low for value in values)
        law[seen] += (Q if low else P) * (P if high else Q) / top
    found = theorems.histories(values, top)
    assert sum(found.values()) == 1
    for seen, chance in law.items():
        assert float(found.get(seen, 0)) == pytest.approx(chance, abs=1e-12)


@pytest.mark.parametrize("eta", [1, 3])
def test_a_nearly_constant_device_by_enumeration(eta):
    """
    All histories of three rounds in all bands of width η, m = s = 6, against one another: δ ≤ η/s, and the least δ is
    (p² + q²)·η/s. A smaller δ is refused.
    """
    top = 6
    laws = {
        values: theorems.histories(values, top)
        for low in range(top - eta + 1)
        for values in product(range(low, low + eta + 1), repeat=3)
    }
    least = max(
        theorems.hockey_stick(one, other, Fraction(1)) for one in laws.values() for other in laws.values()
    )
    assert least <= eta / top
    assert least == pytest.approx(eta / top * (P**2 + Q**2), abs=1e-12)


def test_the_band_decides_the_verdict(result):
    near = result.tables[0]
    assert theorems.approximately_consistent(near).verdict is ClaimVerdict.CORRECTED
    rows = tuple((row[0], row[0] + 0.01, *row[2:]) for row in near.rows)
    worse = NumberTable(near.name, near.title, near.columns, rows)
    assert theorems.approximately_consistent(worse).condition == "no such bound"
    steady = NumberTable(near.name, near.title, near.columns, near.rows[:1])
    assert theorems.approximately_consistent(steady).verdict is ClaimVerdict.HOLDS


def test_a_smaller_step_tells_more(result):
    """
    s = m by hand: the memos differ with p² + q², the rounding point t is uniform, the half is then guessed for
    1/2 + min(t, 1-t), 3/4 on average, and an answer tells E[H(t)] = 1/(2 ln 2) bits. 20,000 devices: 0.5 % off.
    """
    table = result.tables[1]
    _, guessed, told, loss = table.rows[0]
    differ = P**2 + Q**2
    assert guessed == pytest.approx(differ * 3 / 4 + (1 - differ) / 2, abs=0.006)
    assert told == pytest.approx(differ / (2 * log(2)), abs=0.012)
    assert loss == pytest.approx(2)
    assert table.rows[-1][2] > 2 * told
    assert theorems.smaller_step(table).condition == "for coarse questions only"
    swapped = NumberTable(table.name, table.title, table.columns, (table.rows[-1], table.rows[0]))
    assert theorems.smaller_step(swapped).condition == "it does not"


def test_what_a_change_tells(claims):
    assert f"{exp(2):.2f} = e^(2ε)" in claims["A §3"].measured
    assert f"{100 * (P**2 + Q**2):.1f} %" in claims["Lonely §3.2.2"].measured


def test_the_two_users_of_the_paper_by_hand():
    """
    s = m = 24 h: patterns change where the uniform offset passes x/24. Constant with 1 - 6/24 + 0.5/24 and 1 - 4/24;
    else weekdays apart from the rest with (2 - 0.5)/24 and (4 - 1/6)/24.
    """
    constant = (1 - 5.5 / 24) * (1 - 4 / 24)
    apart = 1.5 / 24 * (4 - 1 / 6) / 24
    assert theorems.chance_alike((0.5, 2, 6), (4, 1 / 6, 0), 1) == pytest.approx(constant + apart, abs=2e-3)


def test_d_bits_lose_half_of_epsilon_with_one_bit(claims):
    assert claims["The §2.2, Theorem 2"].measured == "loss 0.50ε for d = 1, else ε"


# What came after 2017


def test_equal_losses_are_those_of_the_notes():
    """MATHS 9, three digits: n·Var of an average bucket, k = 32."""
    notes = {
        1: (4096, 512, 255, 126, 16.6, 2),
        2: (1024, 128, 63.1, 30.4, 4.65, 2),
        4: (256, 31.6, 15.2, 6.73, 1.69, 2),
        8: (63.7, 7.6, 3.35, 1.55, 1.05, 3),
        16: (15.7, 1.66, 0.76, 0.95, 0.97, 5),
    }
    for row in after.equal_loss().rows:
        loss, *found, best, size = row
        *expected, best_size = notes[loss]
        assert found == pytest.approx(expected, rel=7e-3)
        assert size == best_size
        assert best <= found[-1]
    assert after.best_hash(8)[1] == pytest.approx(0.74, abs=0.005)
    assert after.best_hash(16)[1] == pytest.approx(0.37, abs=0.006)


def test_streams_are_those_of_the_notes():
    """337 and 4,656 for the tree (MATHS 9), 1.17 for one remembered bit; FutureRand is at least as good as the tree."""
    rows = {row[0]: row[1:] for row in after.streams().rows}
    assert rows[1][0] == pytest.approx(337, abs=0.5)
    assert rows[4][0] == pytest.approx(4656, abs=0.5)
    assert rows[1][3] == pytest.approx(1.17, abs=0.005)
    assert all(future <= tree * (1 + 1e-9) for tree, future, *_ in rows.values())
    assert all(row[2] == pytest.approx(256 / (4 * tanh(0.5) ** 2)) for row in rows.values())


def test_a_composed_randomizer_by_enumeration():
    """Two bits: every outcome, P(right) - P(wrong) of the best ε-LDP law that depends on the flips alone, by grid."""
    best = 0.0
    steps = [step / 200 for step in range(1, 200)]
    for none, one in product(steps, repeat=2):
        two = 1 - none - 2 * one
        law = (none, one, two)
        if two > 0 and max(law) <= exp(1) * min(law):
            best = max(best, none - two)
    assert after.annulus_gap(2, 1) <= best + 0.01
    assert after.annulus_gap(2, 1) >= tanh(0.25), "no worse than ε/2 for each bit"
