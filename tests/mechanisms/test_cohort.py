from collections import Counter
from fractions import Fraction
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.mechanisms import Buckets, DBitFlip
from reticent.mechanisms.cohort import COHORTS, bucket_window, hadamard_row

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


def test_two_metrics_are_shuffled_differently():
    assert bucket_window("app/hours", 32, 4, 0) != bucket_window("app/minutes", 32, 4, 0)


@pytest.mark.parametrize("size", POWERS)
def test_rows_are_equally_likely(size):
    rows = Counter(hadamard_row(cohort, size) for cohort in range(COHORTS))
    assert rows == dict.fromkeys(range(size), COHORTS // size)
