"""The draws, against BLAKE2b written out by hand from the definition."""

from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.device.prf import SecretDraws, encode
from reticent.mechanisms import Buckets, DBitFlip, OneBitMean
from reticent.plan import Metric

SECRET = bytes(range(32))
MEAN = Metric("saves", OneBitMean(1, 100))
WIDE = Metric("hours", DBitFlip(1, Buckets.even(24, 24), width=20, label="p/hours"))


def block(metric: bytes, digest: bytes, epoch: int, purpose: bytes, index: int, number: int = 0) -> bytes:
    """scheme | plan | metric | digest | epoch | purpose | index | block, each after its length."""
    fields = [b"reticent-1", b"app-usage", metric, digest, epoch.to_bytes(8, "big"), purpose]
    fields += [index.to_bytes(8, "big"), number.to_bytes(8, "big")]
    message = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
    return blake2b(message, key=SECRET, digest_size=64).digest()


def words(*blocks: bytes) -> list[int]:
    data = b"".join(blocks)
    return [int.from_bytes(data[place : place + 8], "big") for place in range(0, len(data), 8)]


@pytest.fixture
def draws() -> SecretDraws:
    return SecretDraws(SECRET, "app-usage", epoch=3)


def test_alpha_memo_and_flips_are_the_words_of_their_blocks(draws: SecretDraws) -> None:
    name, digest = b"saves", MEAN.digest
    assert draws.alpha(MEAN) == words(block(name, digest, 3, b"alpha", 0))[0]
    assert list(draws.memo(MEAN, 7)) == words(block(name, digest, 3, b"memo", 7))[:1]
    assert list(draws.flips(MEAN, 81_652)) == words(block(name, digest, 3, b"flip", 81_652))[:1]


def test_more_than_eight_bits_go_on_in_the_next_blocks(draws: SecretDraws) -> None:
    blocks = [block(b"hours", WIDE.digest, 3, b"memo", 5, number) for number in range(3)]
    assert list(draws.memo(WIDE, 5)) == words(*blocks)[:20]


def test_what_belongs_to_the_plan_as_a_whole(draws: SecretDraws) -> None:
    assert draws.cohort() == block(b"", b"", 3, b"cohort", 0)[0]
    assert draws.report_id(2, 9) == block(b"", (2).to_bytes(8, "big"), 3, b"id", 9)[:16]
    assert draws.delay(9) == words(block(b"", b"", 3, b"delay", 9))[0]


def test_asking_again_or_in_another_order_changes_nothing(draws: SecretDraws) -> None:
    first = [list(draws.memo(WIDE, c)) for c in range(4)]
    other = SecretDraws(SECRET, "app-usage", epoch=3)
    other.flips(MEAN, 1)
    assert [list(other.memo(WIDE, c)) for c in reversed(range(4))] == first[::-1]


@pytest.mark.parametrize(
    "other",
    [
        SecretDraws(bytes(32), "app-usage", 3),
        SecretDraws(SECRET, "app-usage2", 3),
        SecretDraws(SECRET, "app-usage", 4),
    ],
)
def test_another_secret_plan_or_epoch_is_another_device(draws: SecretDraws, other: SecretDraws) -> None:
    assert draws.alpha(MEAN) != other.alpha(MEAN)
    assert draws.memo(MEAN, 0) != other.memo(MEAN, 0)
    assert draws.report_id(1, 1) != other.report_id(1, 1)


def test_another_name_or_other_parameters_are_another_metric(draws: SecretDraws) -> None:
    renamed = Metric("saved", MEAN.mechanism)
    noisier = Metric("saves", OneBitMean(2, 100))
    described = Metric("saves", MEAN.mechanism, description="how often", unit="save")
    assert draws.memo(MEAN, 0) != draws.memo(renamed, 0)
    assert draws.memo(MEAN, 0) != draws.memo(noisier, 0)
    assert draws.memo(MEAN, 0) == draws.memo(described, 0)


def test_the_id_changes_with_version_and_round_and_the_cohort_does_not(draws: SecretDraws) -> None:
    ids = {draws.report_id(version, number) for version in (1, 2) for number in (1, 2)}
    assert len(ids) == 4


@given(st.lists(st.binary(max_size=6), max_size=5), st.lists(st.binary(max_size=6), max_size=5))
def test_the_encoding_is_injective(left: list[bytes], right: list[bytes]) -> None:
    assert (encode(*left) == encode(*right)) == (left == right)


def test_no_secret_shows(draws: SecretDraws) -> None:
    assert repr(draws) == "SecretDraws(plan='app-usage', epoch=3)"
    with pytest.raises(ValueError, match="32 bytes"):
        SecretDraws(b"short", "p", 0)
