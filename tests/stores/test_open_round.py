"""OpenRound and GroupNumbers: what is known of a round in memory."""

from __future__ import annotations

import threading

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reticent.counts import MeanCounts
from reticent.plan import Plan
from reticent.stores import Layout, open_round
from reticent.stores.open_round import GroupNumbers, OpenRound


def group(start: int, count: int, bit: int = 1) -> bytes:
    return b"".join(number.to_bytes(16) + bytes([bit << 7]) for number in range(start, start + count))


def test_groups_are_taken_once_and_reports_too(plan: Plan) -> None:
    found = OpenRound(Layout(plan), 3)
    found.take([(1, group(0, 10)), (2, group(5, 10, bit=0))])
    found.take([(2, group(5, 10, bit=0)), (3, group(100, 5))])
    assert len(found) == 20
    assert found.counts() == {(): {"minutes": MeanCounts(20, 15)}}
    assert found.groups.floor == 3


def test_answers_that_nobody_asks_for_do_not_pile_up(plan: Plan) -> None:
    layout, found = Layout(plan), OpenRound(Layout(plan))
    draws = np.random.default_rng(3)
    most = open_round._COUNT_AT
    open_round._COUNT_AT = 10_000
    try:
        for _ in range(30):
            records = draws.integers(0, 256, (1000, layout.width), dtype=np.uint8)
            found.add(found.missing(records))
            assert found._waiting_bytes < 10_000 + 1000
    finally:
        open_round._COUNT_AT = most
    assert len(found) == 30_000
    assert found.counts()[()]["minutes"].devices == 30_000


def test_a_released_round_keeps_its_counts_and_takes_nothing_more(plan: Plan) -> None:
    found = OpenRound(Layout(plan))
    found.take([(1, group(0, 50_000))])
    before, held = found.counts(), found.nbytes
    found.release()
    found.take([(2, group(60_000, 10))])
    assert (found.counts(), len(found)) == (before, 50_000)
    assert found.nbytes < held / 10


def test_counting_beside_adding_loses_nothing(plan: Plan) -> None:
    found, done = OpenRound(Layout(plan)), threading.Event()
    seen = []

    def ask() -> None:
        while not done.is_set():
            seen.append(sum(counts["minutes"].devices for counts in found.counts().values()))

    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(300):
        records = found.layout.array(group(100 * number, 100))
        found.add(found.missing(records))
    done.set()
    asking.join()
    assert seen == sorted(seen)
    assert found.counts() == {(): {"minutes": MeanCounts(30_000, 30_000)}}


@given(st.permutations(range(1, 60)), st.integers(0, 58))
def test_group_numbers_know_what_they_saw(order: list[int], upto: int) -> None:
    seen = GroupNumbers()
    for number in order[:upto]:
        seen.add(number)
    assert {number for number in range(1, 60) if number in seen} == set(order[:upto])
    assert all(number not in seen.beyond for number in range(seen.floor + 2))


def test_a_number_that_never_comes_is_given_up() -> None:
    seen = GroupNumbers()
    for number in range(2, 3 * seen.patience):
        seen.add(number)
    assert seen.floor == 3 * seen.patience - 1
    assert not seen.beyond
