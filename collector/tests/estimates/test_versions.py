"""Counts of versions add where a report means the same and weighs the same, and not where a sum would be wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.estimates import estimate
from reticent_collector.estimates.versions import question, rhythm

PART = Metric("part", OneBitMean(1, 1))


def plan(metrics: int, asked: int | None, *, window: int = 28, round_seconds: int = 21_600) -> Plan:
    some = tuple(replace(PART, name=f"part_{place}") for place in range(metrics))
    return Plan("p", 1, round_seconds, round_seconds, some, answers=Answers(window, asked))


def test_versions_ask_in_the_same_rhythm_if_the_share_asked_and_all_times_are_equal() -> None:
    assert rhythm(plan(10, 1)) == rhythm(plan(20, 2))
    for other in (
        plan(10, None),
        plan(10, 2),
        plan(20, 1),
        plan(10, 1, window=7),
        plan(10, 1, window=0),
        plan(10, 1, round_seconds=43_200),
    ):
        assert rhythm(other) != rhythm(plan(10, 1))


def test_versions_ask_the_same_if_all_that_a_figure_says_is_equal() -> None:
    others = [
        replace(PART, name="other"),
        replace(PART, mechanism=OneBitMean(2, 1)),
        replace(PART, flip=Flip("0.1")),
        replace(PART, unit="share"),
        replace(PART, is_flag=True),
    ]
    assert len({question(metric) for metric in (PART, *others)}) == 6
    assert question(replace(PART, description="in other words")) == question(PART)


def test_a_sum_over_another_flip_would_be_no_figure_of_the_fleet() -> None:
    """All at 0.1, flips of 0.2 and 0.1: read through one of the channels the sum gives .033 or .150."""
    metrics = [replace(PART, flip=Flip(flip)) for flip in ("0.2", "0.1")]
    assert metrics[0].digest == metrics[1].digest, "so the question has the flip"
    assert question(metrics[0]) != question(metrics[1])
    ones = [round(10**6 * float(metric.channel.share(0.1))) for metric in metrics]
    added = [estimate(metric, MeanCounts(2 * 10**6, sum(ones))).value for metric in metrics]
    assert added == pytest.approx([0.033, 0.150], abs=5e-4)


def test_a_sum_over_another_share_asked_would_weigh_devices_by_it() -> None:
    """9,000 devices at .2 asked one of ten and 1,000 at .8 asked all: .516, where the fleet has .26."""
    ones = [reports * float(PART.channel.share(truth)) for reports, truth in ((900, 0.2), (1000, 0.8))]
    channel = PART.channel
    assert float(channel.truth(sum(ones) / 1900)) == pytest.approx(0.516, abs=5e-4)
    strata = 0.9 * float(channel.truth(ones[0] / 900)) + 0.1 * float(channel.truth(ones[1] / 1000))
    assert strata == pytest.approx(0.26)
