"""Digest, rounds, tags: what devices and collectors must agree on."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Group, Metric, Plan, Segment

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


def grouped(max_total: int = 90, top: int = 60, members: tuple[str, ...] = ("a", "b")) -> dict[str, bytes]:
    """The digests of three like metrics, of which some share a limit."""
    metrics = [metric(name="a"), metric(name="b", mechanism=OneBitMean(1, top)), metric(name="c")]
    groups = (Group("both", members, max_total),) if members else ()
    plan = Plan("p", 1, 21600, 3600, tuple(metrics), groups)
    return {member.name: member.digest for member in plan.metrics}


def test_a_joint_limit_makes_a_new_memo_for_its_metrics_and_no_others() -> None:
    """Another limit, another member or another range of one of them scales the values of all otherwise."""
    variants = [
        grouped(),
        grouped(max_total=91),
        grouped(top=61),
        grouped(members=("a", "c")),
        grouped(members=("a", "b", "c")),
        grouped(members=("a",)),
        grouped(members=()),
    ]
    assert len({digests["a"] for digests in variants}) == len(variants)
    assert grouped()["c"] == grouped(max_total=91)["c"] == grouped(members=())["c"] == metric().digest
    assert grouped(members=("b", "a")) == grouped(), "their order changes no value"


def test_a_metric_leaves_its_limit_with_its_plan() -> None:
    plan = Plan("p", 1, 60, 60, (metric(), metric(name="b")), (Group("both", ("a", "b"), 90),))
    assert plan.metrics[0].digest != metric().digest
    assert replace(plan, groups=()).metrics[0].digest == metric().digest
    assert replace(plan, version=2).metrics == plan.metrics


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


def test_a_plan_expires_with_the_first_second_of_the_day() -> None:
    plan = Plan("p", 1, 3600, 0, (Metric("a", OneBitMean(1, 60)),), expires=date(2027, 11, 1))
    midnight = datetime(2027, 11, 1, tzinfo=UTC).timestamp()
    assert [plan.has_expired(midnight + seconds) for seconds in (-1, 0, 1)] == [False, True, True]
    assert not replace(plan, expires=None).has_expired(midnight)
