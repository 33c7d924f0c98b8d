from collections import Counter
from fractions import Fraction
from hashlib import sha256
from itertools import product
from math import exp, log, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.mechanisms import COHORTS, SCALE, Buckets, DBitFlip
from reticent.mechanisms.d_bit_flip import bucket_window

variants = st.sampled_from(["tight", "paper"])


def of(
    buckets: int, width: int, variant: str = "tight", epsilon: object = 1, label: str = "app/hours"
) -> DBitFlip:
    return DBitFlip(epsilon, Buckets.even(buckets, buckets), width, variant, label)


def chance(thresholds: tuple[int, ...], answer: tuple[int, ...]) -> Fraction:
    """P(answer), the bits being independent."""
    return prod(
        (Fraction(t if bit else SCALE - t, SCALE) for t, bit in zip(thresholds, answer, strict=True)),
        start=Fraction(1),
    )


def largest_ratio(mechanism: DBitFlip, cohort: int) -> Fraction:
    """max over all answers and pairs of buckets of P(answer | u)/P(answer | v): all there is."""
    laws = {
        mechanism.thresholds(mechanism.memo_class(bucket, 0, cohort), cohort)
        for bucket in range(len(mechanism.buckets))
    }
    answers = list(product((0, 1), repeat=mechanism.width))
    chances = [[chance(law, answer) for law in laws] for answer in answers]
    return max(max(row) / min(row) for row in chances)


@given(st.integers(2, 60), st.data())
def test_what_a_device_compares_with_is_its_probability(buckets, data):
    width = data.draw(st.integers(1, buckets))
    mechanism = of(buckets, width, data.draw(variants))
    cohort = data.draw(st.integers(0, COHORTS - 1))
    bucket = data.draw(st.integers(0, buckets - 1))
    thresholds = mechanism.thresholds(mechanism.memo_class(bucket, 0, cohort), cohort)
    assert len(thresholds) == mechanism.bits == width
    for asked, threshold in zip(mechanism.rows_of(cohort), thresholds, strict=True):
        assert threshold == (mechanism.response.high if asked == bucket else mechanism.response.low)
        assert mechanism.probability_of_one(bucket, asked) == pytest.approx(threshold / SCALE, abs=1e-15)


@pytest.mark.parametrize("variant", ["tight", "paper"])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
@pytest.mark.parametrize(("buckets", "width"), [(2, 1), (5, 1), (5, 2), (5, 4), (5, 5), (8, 3), (2, 2)])
def test_the_loss_over_all_answers_is_epsilon(buckets, width, variant, epsilon, exponential_bounds):
    mechanism = of(buckets, width, variant, epsilon)
    worst = max(largest_ratio(mechanism, cohort) for cohort in range(0, COHORTS, 51))
    assert worst <= exponential_bounds(Fraction(epsilon))[0]
    used = log(worst)
    if variant == "paper" and width == 1:
        assert used == pytest.approx(float(epsilon) / 2, rel=1e-12), "erratum 8: half of the budget is wasted"
    else:
        assert used == pytest.approx(float(epsilon), rel=1e-12)


@pytest.mark.parametrize(("epsilon", "gain"), [("0.0001", 4.0), ("1", 4.26), ("5", 14.3)])
def test_erratum_8_the_whole_budget_has_at_least_four_times_less_variance(epsilon, gain):
    def light(mechanism: DBitFlip) -> float:
        lie = mechanism.response.low / SCALE
        return lie * (1 - lie) / (1 - 2 * lie) ** 2

    paper, tight = of(32, 1, "paper", epsilon), of(32, 1, "tight", epsilon)
    assert light(paper) / light(tight) == pytest.approx(gain, rel=5e-3)


def test_tight_remembers_one_response_per_class():
    mechanism = of(32, 4)
    assert mechanism.classes == 5
    for cohort in range(COHORTS):
        window = mechanism.rows_of(cohort)
        classes = [mechanism.memo_class(bucket, 0, cohort) for bucket in range(32)]
        assert [classes[bucket] for bucket in window] == [0, 1, 2, 3]
        assert {classes[bucket] for bucket in range(32) if bucket not in window} == {4}


def test_paper_remembers_one_response_per_bucket():
    mechanism = of(32, 4, "paper")
    assert mechanism.classes == 32
    assert [mechanism.memo_class(bucket, 0, 7) for bucket in range(32)] == list(range(32))


def test_with_every_bucket_asked_the_variants_agree_and_need_no_cohort():
    tight, paper = of(6, 6), of(6, 6, "paper")
    for mechanism in (tight, paper):
        assert not mechanism.uses_cohort
        assert mechanism.classes == 6
        assert mechanism.rows_of(0) == mechanism.rows_of(99) == tuple(range(6))
        assert mechanism.coverage == (1.0,) * 6
    assert [tight.thresholds(c, 0) for c in range(6)] == [paper.thresholds(c, 99) for c in range(6)]


@pytest.mark.parametrize(("epsilon", "sharers"), [(1, 2.5), (10, 0.18)])
def test_erratum_20_few_buckets_share_a_response_at_large_epsilon(epsilon, sharers):
    """Buckets not asked about that draw exactly the likeliest response of a bucket that is: k = 32, d = 4."""
    mechanism = of(32, 4, "paper", epsilon)
    window = mechanism.rows_of(0)
    likeliest = (1, 0, 0, 0)
    own = chance(mechanism.thresholds(window[0], 0), likeliest)
    assert all(own >= chance(mechanism.thresholds(window[0], 0), z) for z in product((0, 1), repeat=4))
    others = [bucket for bucket in range(32) if bucket not in window]
    expected = sum(chance(mechanism.thresholds(bucket, 0), likeliest) for bucket in others)
    assert float(expected) == pytest.approx(sharers, rel=0.03)


def test_calibration():
    assert [of(32, width).response.epsilon for width in (1, 2, 32)] == [1, Fraction(1, 2), Fraction(1, 2)]
    assert [of(32, width, "paper").response.epsilon for width in (1, 2, 32)] == [Fraction(1, 2)] * 3
    half = of(32, 4, "paper")
    assert half.probability_of_one(3, 3) == pytest.approx(exp(0.5) / (exp(0.5) + 1), rel=1e-14)


def test_coverage_depends_on_the_label_only_through_the_shuffle():
    one, other = of(24, 5, label="a"), of(24, 5, label="b")
    assert sorted(one.coverage) == sorted(other.coverage)
    assert one.rows_of(0) != other.rows_of(0)


shapes = st.integers(2, COHORTS).flatmap(lambda k: st.tuples(st.just(k), st.integers(1, k)))
POWERS = [2, 4, 8, 16, 32, 64, 128, 256]


def coverage(label: str, buckets: int, width: int) -> tuple[float, ...]:
    return DBitFlip(1, Buckets.even(buckets, buckets), width, label=label).coverage


@given(shapes, st.integers(0, COHORTS - 1), st.text(max_size=8))
def test_a_window_holds_distinct_buckets(shape, cohort, label):
    buckets, width = shape
    window = bucket_window(label, buckets, width, cohort)
    assert len(window) == len(set(window)) == width
    assert set(window) <= set(range(buckets))


@given(shapes)
def test_coverage_sums_to_the_width_and_is_even_to_one_cohort(shape):
    buckets, width = shape
    shares = [Fraction(share) for share in coverage("app/hours", buckets, width)]
    assert sum(shares) == width
    assert all(abs(share - Fraction(width, buckets)) < Fraction(1, COHORTS) for share in shares)
    assert min(shares) > 0, "every bucket is asked about by somebody"


@pytest.mark.parametrize("buckets", POWERS)
def test_coverage_is_exactly_even_when_the_buckets_divide_256(buckets):
    for width in {1, 2, buckets // 2, buckets - 1, buckets} - {0}:
        assert set(coverage("label", buckets, width)) == {width / buckets}


def test_coverage_is_what_the_windows_add_up_to():
    asked = Counter(bucket for cohort in range(COHORTS) for bucket in bucket_window("x", 24, 5, cohort))
    assert coverage("x", 24, 5) == tuple(asked[bucket] / COHORTS for bucket in range(24))
    assert len(set(coverage("x", 24, 5))) == 2, "24 does not divide 256, so it cannot be quite even"


def test_the_shuffle_is_public_and_can_be_redone_by_anyone():
    keys = {bucket: sha256(b"app/hours/" + str(bucket).encode()).hexdigest() for bucket in range(10)}
    order = sorted(keys, key=keys.__getitem__)
    for cohort in (0, 25, 26, 100, 255):
        start = cohort * 10 // 256
        assert bucket_window("app/hours", 10, 3, cohort) == tuple((order + order)[start : start + 3])
