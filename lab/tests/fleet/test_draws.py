"""The fleet's hash: arrays agree with numbers, draws are uniform and independent, bad mixers are found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from reticent.mechanisms import Buckets, DBitFlip, OneBitMean
from reticent.plan import Metric
from reticent_lab.fleet.draws import FleetDraws, HashDraws, Places

FALSE_ALARM = 1e-8
"""Of one chi-square test, both tails; some 120 of them are made here, with fixed seeds: below 2e-6 in all."""
DEVICES = 1 << 18
MEAN = Metric("mean", OneBitMean(1, 60))
BITS = Metric("bits", DBitFlip(1, Buckets.even(60, 8), 4))
PLACES = Places(seed=3, plan="p")
FLEET = FleetDraws(PLACES, DEVICES)

SPOTS = {
    "alpha": PLACES.alpha(MEAN),
    "alpha, other metric": PLACES.alpha(BITS),
    "memo, class 0": PLACES.memo(MEAN, 0, 0),
    "memo, class 1": PLACES.memo(MEAN, 1, 0),
    "memo, bit 1": PLACES.memo(BITS, 0, 1),
    "flip, round 7": PLACES.flip(MEAN, 7, 0),
    "flip, round 8": PLACES.flip(MEAN, 8, 0),
    "flip, bit 1": PLACES.flip(BITS, 7, 1),
    "cohort": PLACES.cohort(),
    "id, first half": PLACES.report_id(1, 7)[0],
    "id, second half": PLACES.report_id(1, 7)[1],
    "picked round": PLACES.picked_round(),
    "asked": PLACES.asked(MEAN),
    "asked, other metric": PLACES.asked(BITS),
}


def even(cells: np.ndarray, count: int) -> bool:
    """Whether `count` cells are equally full, neither too unevenly nor too evenly for chance."""
    seen = np.bincount(cells, minlength=count)
    p = stats.chisquare(seen).pvalue
    return bool(FALSE_ALARM / 2 < p < 1 - FALSE_ALARM / 2)


def byte(words: np.ndarray, place: int) -> np.ndarray:
    return (words >> np.uint64(8 * place) & np.uint64(255)).astype(np.intp)


def uniform(words: np.ndarray) -> bool:
    """The top, a middle and the bottom byte, and the top nibbles of neighbouring devices together."""
    nibbles = (words >> np.uint64(60)).astype(np.intp)
    neighbours = nibbles[0::2] * 16 + nibbles[1::2]
    return even(neighbours, 256) and all(even(byte(words, place), 256) for place in (7, 3, 0))


def independent(one: np.ndarray, other: np.ndarray) -> bool:
    """The top nibbles together, and whether their lowest bits agree half of the time."""
    pairs = (one >> np.uint64(60)) * np.uint64(16) + (other >> np.uint64(60))
    agree = ((one ^ other) & np.uint64(1)).astype(np.intp)
    return even(pairs.astype(np.intp), 256) and even(agree, 2)


@pytest.mark.parametrize("spot", SPOTS)
def test_draws_are_uniform(spot: str) -> None:
    assert uniform(FLEET.words(SPOTS[spot], slice(None)))


def test_draws_of_different_purposes_and_indices_are_independent() -> None:
    drawn = {name: FLEET.words(place, slice(None)) for name, place in SPOTS.items()}
    names = list(SPOTS)
    for place, name in enumerate(names[1:], 1):
        assert independent(drawn[name], drawn[names[place - 1]]), name
        assert independent(drawn[name], drawn[names[0]]), name


def test_two_seeds_and_two_plans_are_independent() -> None:
    for other in (Places(4, "p"), Places(3, "q")):
        words = FleetDraws(other, DEVICES).words(other.alpha(MEAN), slice(None))
        assert independent(words, FLEET.words(SPOTS["alpha"], slice(None)))


def test_two_windows_are_independent_of_each_other_and_of_remembered_answers() -> None:
    first, second = (Places(3, "p", window) for window in (604_800, 1_209_600))
    for spot in (Places.picked_round, Places.cohort):
        drawn = [
            FleetDraws(places, DEVICES).words(spot(places), slice(None)) for places in (PLACES, first, second)
        ]
        assert all(independent(drawn[one], drawn[other]) for one, other in ((0, 1), (0, 2), (1, 2)))


def no_mixing(words: np.ndarray) -> np.ndarray:
    return words


def one_product(words: np.ndarray) -> np.ndarray:
    return words * np.uint64(0xBF58476D1CE4E5B9)


def low_bits_only(words: np.ndarray) -> np.ndarray:
    return words & np.uint64(2**32 - 1)


@pytest.mark.parametrize("bad", [no_mixing, one_product, low_bits_only])
def test_a_bad_mixer_is_found_out(bad: Callable[[np.ndarray], np.ndarray]) -> None:
    numbers = np.arange(DEVICES, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert not uniform(bad(numbers))


def test_a_place_that_is_added_after_mixing_is_found_out() -> None:
    """What this design avoids: two draws of a device whose difference is the same for all devices."""
    assert not independent(
        FLEET.states ^ np.uint64(SPOTS["alpha"]), FLEET.states ^ np.uint64(SPOTS["cohort"])
    )


def test_no_two_devices_share_a_draw_and_no_two_places_are_one() -> None:
    assert len(np.unique(FLEET.words(SPOTS["alpha"], slice(None)))) == DEVICES
    places = {PLACES.memo(BITS, each, bit) for each in range(5) for bit in range(4)}
    places |= {PLACES.flip(BITS, number, bit) for number in range(50) for bit in range(4)}
    assert len(places | set(SPOTS.values())) == 5 * 4 + 50 * 4 + len(SPOTS) - 2  # two of SPOTS are among them


def test_each_bit_of_the_device_number_turns_every_bit_of_a_draw_half_of_the_time() -> None:
    """4096 devices and 12 of their bits against 64 bits: 768 shares of 4096, 6.5 standard errors each."""
    words = FLEET.words(SPOTS["alpha"], slice(0, 4096))
    for place in range(12):
        changed = words ^ words[np.arange(4096) ^ (1 << place)]
        turned = np.unpackbits(changed.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
        assert np.abs(turned - 0.5).max() < 6.5 * 0.5 / np.sqrt(2048)


def test_arrays_and_numbers_agree() -> None:
    first, count = 2**40 + 5, 300
    fleet = FleetDraws(Places(2**80, "plan"), count, first)
    some = np.array([0, 3, 299])
    for device in (0, 3, 299):
        draws = HashDraws(2**80, first + device, "plan")
        places = fleet.places
        assert draws.alpha(MEAN) == fleet.words(places.alpha(MEAN), slice(None))[device]
        assert draws.cohort() == int(fleet.words(places.cohort(), slice(None))[device]) >> 56
        for bit in range(4):
            assert draws.memo(BITS, 2)[bit] == fleet.words(places.memo(BITS, 2, bit), slice(None))[device]
            assert draws.flips(BITS, 9)[bit] == fleet.words(places.flip(BITS, 9, bit), slice(None))[device]
        halves = [int(fleet.words(place, slice(None))[device]) for place in places.report_id(4, 9)]
        assert draws.report_id(4, 9) == b"".join(half.to_bytes(8, "big") for half in halves)
    chosen = fleet.words(fleet.places.alpha(MEAN), some, np.empty((2, 10), np.uint64))
    assert (chosen == fleet.words(fleet.places.alpha(MEAN), slice(None))[some]).all()
