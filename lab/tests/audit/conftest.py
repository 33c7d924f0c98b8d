"""The plans whose claims are enumerated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from reticent.mechanisms import Buckets, DBitFlip, Flip, HadamardBit, OneBitMean
from reticent.plan import Answers, Group, Metric, Plan


def a_plan(*metrics: Metric, groups: tuple[Group, ...] = ()) -> Plan:
    return Plan("audited", 1, 3600, 3600, metrics, groups)


def in_windows(
    *metrics: Metric, window: int = 2, asked: int | None = None, groups: tuple[Group, ...] = ()
) -> Plan:
    return Plan("audited", 1, 3600, 3600, metrics, groups, answers=Answers(window, asked))


@pytest.fixture(scope="session")
def plans() -> Mapping[str, Plan]:
    """Plans by what is in them."""
    flip, buckets = Flip("0.2"), Buckets.even(8, 8)
    two = Metric("a", OneBitMean(1, 100)), Metric("b", OneBitMean(1, 100))
    counters = tuple(Metric(f"app{number}", OneBitMean(1, 100), flip) for number in range(3))
    return {
        "mean": a_plan(Metric("saves", OneBitMean(1, 100), flip)),
        "mean without flips": a_plan(Metric("saves", OneBitMean(1, 100))),
        "fine mean": a_plan(Metric("saves", OneBitMean(2, 100, 25), Flip("0.1"))),
        "hadamard": a_plan(Metric("shape", HadamardBit(1, buckets), flip)),
        "two bits": a_plan(Metric("shape", DBitFlip(2, buckets, 2), flip)),
        "one bit, paper": a_plan(Metric("shape", DBitFlip(2, buckets, 1, "paper"))),
        "all buckets": a_plan(Metric("shape", DBitFlip(2, buckets, 8), flip)),
        "group": a_plan(*counters, groups=(Group("apps", ("app0", "app1", "app2"), 100),)),
        "group of two": a_plan(*counters[:2], groups=(Group("apps", ("app0", "app1"), 100),)),
        "group without flips": a_plan(
            *(replace(counter, flip=Flip(0)) for counter in counters),
            groups=(Group("apps", ("app0", "app1", "app2"), 100),),
        ),
        "sampled": in_windows(Metric("a", OneBitMean(1, 100))),
        "sampled group": in_windows(*two, window=1, groups=(Group("both", ("a", "b"), 100),)),
        "sampled, one of two": in_windows(*two, asked=1),
        "sampled, two of three": in_windows(*two, Metric("c", OneBitMean(1, 100)), asked=2),
        "sampled histogram": in_windows(Metric("shape", HadamardBit(2, Buckets.even(3, 3)))),
        "mixed": a_plan(
            Metric("saves", OneBitMean("0.5", 100)),
            Metric("opens", OneBitMean(1, 50), flip),
            Metric("shape", HadamardBit(2, buckets), Flip("0.1")),
            groups=(Group("all", ("saves", "opens"), 70),),
        ),
    }
