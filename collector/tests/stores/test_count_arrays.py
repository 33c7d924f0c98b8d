"""Counting in arrays says what counting report by report says, whatever the plan and however it is cut."""

from __future__ import annotations

import random

import numpy as np
import pytest

from reticent.plan import Plan
from reticent.reports import ID_BYTES, Report
from reticent_collector.counts import count_reports
from reticent_collector.stores import CountsByTags, Layout
from reticent_collector.stores import count_arrays as arrays_module
from reticent_collector.stores.count_arrays import CountArrays

HEAD = '[plan]\nname = "p"\nversion = 1\nround = "1h"\n'
MEAN = '[metrics.{name}]\nkind = "mean"\nmax_value = 60\nepsilon = 1.0\n'
HADAMARD = '[metrics.h]\nkind = "histogram"\nmax_value = 60\nbuckets = 9\nmechanism = "hadamard-bit"\nepsilon = 1.0\n'
WINDOW = (
    '[metrics.d]\nkind = "histogram"\nmax_value = 60\nbuckets = 11\n'
    'mechanism = "d-bit-flip"\nbits = 4\nepsilon = 1.0\n'
)
WHOLE = WINDOW.replace("metrics.d", "metrics.w").replace("bits = 4", "bits = 11")
SEGMENTS = '[segments]\nos = ["a", "b", "c"]\nchannel = ["x", "y"]\n'
SAMPLED = '[answers]\nkind = "sampled"\nwindow = "7h"\nmetrics = 1\n'
MEANS = "".join(MEAN.format(name=name) for name in "mno")
PLANS = {
    "means": HEAD + MEANS,
    "means by tags": HEAD + MEANS + SEGMENTS,
    "histograms": HEAD + HADAMARD + WINDOW,
    "all kinds by tags": HEAD + MEANS + HADAMARD + WINDOW + WHOLE + SEGMENTS,
    "whole histogram by tags": HEAD + WHOLE + SEGMENTS,
    "sampled": HEAD + SAMPLED + MEANS + HADAMARD + WINDOW,
    "sampled by tags": HEAD + SAMPLED + MEANS + HADAMARD + WINDOW + SEGMENTS,
}


def reports_on(plan: Plan, size: int, seed: int = 1) -> list[Report]:
    draws, reports = random.Random(seed), []
    for _ in range(size):
        bits, asked = draws.getrandbits(plan.bits), None
        if plan.asked_bytes:
            number = draws.randrange(len(plan.metrics))
            asked = (1 << (8 * plan.asked_bytes - 1 - number)).to_bytes(plan.asked_bytes)
            start = plan.offset(plan.metrics[number].name)
            width = plan.metrics[number].bits
            bits &= ((1 << width) - 1) << (plan.bits - start - width)
        segment = {
            name: draws.choice(["a", "b", "x", "y", "?"]) for name in ("os", "channel") if plan.segments
        }
        packed = (bits << (-plan.bits % 8)).to_bytes(plan.report_bytes)
        cohort = draws.randrange(256) if plan.uses_cohort else None
        reports.append(Report("p", 1, 7, draws.randbytes(16), packed, cohort, segment, asked))
    return reports


def expected(plan: Plan, reports: list[Report]) -> CountsByTags:
    return {tags: counts for (_, tags), counts in count_reports(reports, plan).items()}


@pytest.mark.parametrize("room", [0, 4, 1 << 20], ids=["bit by bit", "as it is", "by tables"])
@pytest.mark.parametrize("name", PLANS)
def test_arrays_count_as_report_by_report(name: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some at a time, so that combinations of tags turn up later."""
    monkeypatch.setattr(arrays_module, "_ROOM", room)
    monkeypatch.setattr(arrays_module, "_ROWS_AT_ONCE", 60)
    plan = Plan.from_toml(PLANS[name])
    layout, reports = Layout(plan), reports_on(plan, 300)
    records = layout.array(b"".join(map(layout.pack, reports)))
    arrays = CountArrays(plan)
    for start, end in ((0, 0), (0, 1), (1, 7), (7, 300)):
        arrays.add(records[start:end, ID_BYTES:])
        assert arrays.counts() == expected(plan, reports[:end])
    assert layout.counts(records) == expected(plan, reports)


def test_a_tag_beyond_the_last_one_is_other() -> None:
    plan = Plan.from_toml(PLANS["means by tags"])
    records = np.zeros((2, Layout(plan).width), dtype=np.uint8)
    records[0, ID_BYTES] = 200
    assert sorted(Layout(plan).counts(records)) == [("a", "x"), ("other", "x")]


def test_many_combinations_take_little_memory_and_time() -> None:
    """20,000 combinations of tags, most of them with one report: not one table per combination."""
    tags = ", ".join(f'"t{number}"' for number in range(140))
    plan = Plan.from_toml(HEAD + HADAMARD + f"[segments]\nfirst = [{tags}]\nsecond = [{tags}]\n")
    layout = Layout(plan)
    draws = np.random.default_rng(5)
    records = draws.integers(0, 141, (50_000, layout.width), dtype=np.uint8)
    records[:, -1] &= 0x80
    counts = layout.counts(records)
    assert len(counts) > 15_000
    assert sum(by_metric["h"].devices for by_metric in counts.values()) == 50_000
