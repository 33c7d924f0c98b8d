from itertools import product
from math import exp, prod
from random import Random

import pytest

from reticent.lab.baselines import BinFlip, NaiveMemo
from reticent.mechanisms import Buckets, DBitFlip


def responses(epsilon: float, buckets: int) -> list[dict[tuple[int, ...], float]]:
    """P(response | bucket) for every response, from the definition."""
    high = exp(epsilon / 2) / (exp(epsilon / 2) + 1)
    laws = []
    for bucket in range(buckets):
        ones = [high if asked == bucket else 1 - high for asked in range(buckets)]
        laws.append(
            {
                bits: prod(p if bit else 1 - p for p, bit in zip(ones, bits, strict=True))
                for bits in product((0, 1), repeat=buckets)
            }
        )
    return laws


@pytest.mark.parametrize("epsilon", [0.1, 1, 4])
@pytest.mark.parametrize("buckets", [2, 3, 5])
def test_the_chance_of_betrayal_by_enumeration(epsilon, buckets):
    own, *others = responses(epsilon, buckets)
    alone = sum(chance * prod(1 - law[bits] for law in others) for bits, chance in own.items())
    sharers = sum(chance * law[bits] for bits, chance in own.items() for law in others)
    naive = NaiveMemo(epsilon, buckets)
    assert naive.probability_of_betrayal == pytest.approx(alone, rel=1e-11)
    assert naive.expected_sharers == pytest.approx(sharers, rel=1e-11)
    assert naive.probability_of_betrayal != pytest.approx(
        NaiveMemo(epsilon * 1.1, buckets).probability_of_betrayal, rel=1e-6
    )


def test_32_bits_are_a_fingerprint_and_one_bit_is_not():
    """The paper's "almost 100%": at k = 32 and ε ≤ 1 not one bucket in ten million has a twin."""
    for epsilon in (0.1, 1):
        assert 1 - NaiveMemo(epsilon, 32).probability_of_betrayal < 1e-7
    for epsilon in (2, 4, 6, 10):
        assert 1 - NaiveMemo(epsilon, 32).probability_of_betrayal < 0.02
    one_bit = DBitFlip(1, Buckets.even(32, 32), width=1, variant="paper")
    sharers = sum(one_bit.probability_of_one(bucket, 0) for bucket in range(1, 32))
    assert sharers > 10, "with d = 1 a remembered 1 is shared by a third of the other buckets"


def test_the_memo_is_drawn_once_and_then_only_looked_up():
    naive = NaiveMemo(1, 16)
    memo = naive.remember(Random(3))
    assert len(memo) == 16
    assert all(len(response) == 16 for response in memo)
    history = [naive.answer(bucket, memo) for bucket in (3, 7, 3, 3, 7)]
    assert history[0] == history[2] == history[3]
    assert history[1] == history[4]
    assert naive.remember(Random(3)) == memo
    assert naive.remember(Random(4)) != memo


def test_betrayal_happens_as_often_as_computed(agrees):
    """20,000 devices with 4 buckets and ε = 3; is bucket 0's response alone? Wrong ε are refused."""
    random, devices = Random(34), 20_000
    naive = NaiveMemo(3, 4)
    alone = sum(memo[0] not in memo[1:] for memo in (naive.remember(random) for _ in range(devices)))
    assert agrees([alone], devices, [naive.probability_of_betrayal])
    assert not agrees([alone], devices, [NaiveMemo(2.5, 4).probability_of_betrayal])
    assert not agrees([alone], devices, [NaiveMemo(3.5, 4).probability_of_betrayal])


def test_one_round_is_bin_flip():
    naive, plain = NaiveMemo(1, 32), BinFlip(1, 32)
    assert (naive.epsilon, naive.buckets, naive.loss) == (1, 32, plain.loss)
    assert naive.variance(0.25) == plain.variance(0.25)
    assert naive.estimate(0.5) == plain.estimate(0.5)
