"""OpenRound and Seen: what is known of a round in memory."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.plan import Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.stores import GroupRange, Layout, OpenRound, Records, Seen


def group(start: int, count: int, bit: int = 1) -> Records:
    records = [number.to_bytes(16) + bytes([bit << 7]) for number in range(start, start + count)]
    return np.frombuffer(b"".join(records), dtype=np.uint8).reshape(-1, 17)


def span(first: int, last: int | None = None, writer: str = "") -> GroupRange:
    return GroupRange(writer, first, last or first)


def test_groups_are_taken_once_and_reports_too(plan: Plan) -> None:
    known = OpenRound(Layout(plan))
    known.take([(span(1), group(0, 10)), (span(2), group(5, 10, bit=0))])
    known.take([(span(2), group(5, 10, bit=0)), (span(3), group(100, 5))])
    assert len(known) == 20
    assert known.counts() == {(): {"minutes": MeanCounts(20, 15)}}
    assert known.seen.floor("") == 3


def test_answers_that_nobody_asks_for_do_not_pile_up(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    layout, known = Layout(plan), OpenRound(Layout(plan))
    draws = np.random.default_rng(3)
    monkeypatch.setattr("reticent_collector.stores.open_round._COUNT_AT", 10_000)
    for _ in range(30):
        records = draws.integers(0, 256, (1000, layout.width), dtype=np.uint8)
        known.add(known.missing(records))
        assert len(known._waiting) < 10_000 + 1000
    assert len(known) == 30_000
    assert known.counts()[()]["minutes"].devices == 30_000


def test_a_released_round_keeps_its_counts_and_takes_nothing_more(plan: Plan) -> None:
    known = OpenRound(Layout(plan))
    known.take([(span(1), group(0, 50_000))])
    before, held = known.counts(), known.nbytes
    known.release()
    known.take([(span(2), group(60_000, 10))])
    assert (known.counts(), len(known)) == (before, 50_000)
    assert known.nbytes < held / 10


def test_counting_beside_adding_loses_nothing(plan: Plan) -> None:
    known, done = OpenRound(Layout(plan)), threading.Event()
    seen = []

    def ask() -> None:
        while not done.is_set():
            seen.append(sum(counts["minutes"].devices for counts in known.counts().values()))

    asking = threading.Thread(target=ask)
    asking.start()
    for number in range(300):
        records = group(100 * number, 100)
        known.add(known.missing(records))
    done.set()
    asking.join()
    assert seen == sorted(seen)
    assert known.counts() == {(): {"minutes": MeanCounts(30_000, 30_000)}}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 60), st.integers(0, 5)), max_size=60))
def test_spans_that_were_seen_against_a_plain_set(spans: list[tuple[str, int, int]]) -> None:
    seen, plain = Seen(), set()
    for writer, first, more in spans:
        seen.add(GroupRange(writer, first, first + more))
        plain |= {(writer, number) for number in range(first, first + more + 1)}
    for writer in "ab":
        for first in range(1, 67):
            for last in (first, first + 3):
                expected = plain.issuperset((writer, number) for number in range(first, last + 1))
                assert (GroupRange(writer, first, last) in seen) == expected
        floor = seen.floor(writer)
        assert all((writer, number) in plain for number in range(1, floor + 1))
        assert (writer, floor + 1) not in plain


def test_a_number_that_never_comes_is_given_up() -> None:
    seen = Seen()
    for number in range(2, seen.patience + 2):
        seen.add(span(number))
    assert (seen.floor(""), span(1) in seen) == (0, False)
    seen.add(span(seen.patience + 2))
    assert (seen.floor(""), span(1) in seen) == (seen.patience + 2, True)
