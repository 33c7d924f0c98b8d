"""Digest, rounds, tags: what devices and collectors must agree on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan, Segment

BUCKETS = Buckets.even(60, 8)


def metric(**changes: object) -> Metric:
    return replace(Metric("a", OneBitMean(1, 60), Flip("0.2"), "second", "words"), **changes)  # type: ignore[arg-type]


def test_words_and_flips_leave_the_memo_alone() -> None:
    digest = metric().digest
    assert metric(unit="minute").digest == digest
    assert metric(description="other words").digest == digest
    assert metric(flip=Flip("0.3")).digest == digest


def test_every_privacy_parameter_makes_a_new_memo() -> None:
    mechanisms = [
        OneBitMean(1, 60),
        OneBitMean("1.000000001", 60),
        OneBitMean(1, 61),
        OneBitMean(1, 60, step=30),
        HadamardBit(1, BUCKETS),
        HadamardBit(1, Buckets.even(60, 9)),
        DBitFlip(1, BUCKETS, 2),
        DBitFlip(1, BUCKETS, 3),
        DBitFlip(1, BUCKETS, 2, "paper"),
        DBitFlip(1, BUCKETS, 2, label="elsewhere"),
        DBitFlip(2, BUCKETS, 2),
        DBitFlip(1, Buckets([0, 1, 60]), 2),
    ]
    assert len({metric(mechanism=mechanism).digest for mechanism in mechanisms}) == len(mechanisms)


def test_rounds_tile_time() -> None:
    plan = Plan("p", 1, 21600, 3600, (metric(),))
    assert plan.round_at(81652 * 21600) == 81652
    assert plan.round_at(81653 * 21600 - 0.001) == 81652
    asked = plan.round(81652)
    assert (asked.end - asked.start, asked.closes - asked.end) == (21600, 3600)
    assert plan.round_at(asked.start) == plan.round_at(asked.end) - 1 == 81652


def test_anything_undeclared_becomes_other() -> None:
    plan = Plan("p", 1, 60, 60, (metric(),), segments=(Segment("os", ("linux",)),))
    assert plan.tags({"os": "linux", "shoe": "42"}) == {"os": "linux"}
    assert plan.tags({"os": "beos"}) == plan.tags({}) == plan.tags({"os": 3}) == {"os": "other"}


def test_offsets_follow_plan_order() -> None:
    wide = Metric("b", DBitFlip(1, BUCKETS, 5))
    plan = Plan("p", 1, 60, 60, (metric(), wide, replace(wide, name="c")))
    assert [plan.offset(name) for name in "abc"] == [0, 1, 6]
    assert (plan.bits, plan.report_bytes) == (11, 2)
    with pytest.raises(KeyError):
        plan.offset("d")
