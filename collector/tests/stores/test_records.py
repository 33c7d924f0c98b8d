"""Layout: records hold all of a report, and are counted as reports are."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, OneBitMean
from reticent.plan import Metric, Plan, Segment
from reticent.reports import Report, to_packed
from reticent_collector.counts import MeanCounts, count_reports
from reticent_collector.stores import Layout, add_counts, batches, records
from reticent_collector.stores.sorting import Sorting, count_once

MEAN = Metric("minutes", OneBitMean(1, 60))
HISTOGRAM = Metric("words", DBitFlip(1, Buckets.even(100, 10), 4))


def a_plan(metrics: tuple[Metric, ...], segments: int, tags: int = 3) -> Plan:
    return Plan(
        "demo", 1, 3600, 0, metrics,
        segments=tuple(Segment(f"s{n}", tuple(f"t{tag}" for tag in range(tags))) for n in range(segments)),
    )  # fmt: skip


PLANS = [a_plan((MEAN,), 0), a_plan((MEAN,), 2), a_plan((MEAN, HISTOGRAM), 0), a_plan((HISTOGRAM, MEAN), 4)]


def some_reports(plan: Plan, count: int, seed: int) -> list[Report]:
    draws = random.Random(seed)
    return [
        Report(
            plan.name, plan.version, 7, draws.randbytes(16),
            (draws.getrandbits(plan.bits) << (-plan.bits % 8)).to_bytes(plan.report_bytes),
            draws.randrange(256) if plan.uses_cohort else None,
            {each.name: draws.choice([*each.values, "?"]) for each in plan.segments},
        )
        for _ in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize("plan", PLANS)
def test_a_record_is_a_packed_report_without_its_round(plan: Plan) -> None:
    layout = Layout(plan)
    (report,) = some_reports(plan, 1, 5)
    packed = to_packed([report], plan)
    assert packed.endswith((7).to_bytes(8) + layout.pack(report))
    assert len(layout.pack(report)) == layout.width


@given(st.sampled_from(PLANS), st.integers(0, 60), st.integers(0, 2**32))
def test_records_are_counted_as_reports_are(plan: Plan, count: int, seed: int) -> None:
    reports, layout = some_reports(plan, count, seed), Layout(plan)
    records = layout.array(b"".join(map(layout.pack, reports)))
    expected = {tags: counts for (_, tags), counts in count_reports(reports, plan).items()}
    assert layout.counts(records) == expected
    half = count // 2
    assert add_counts(layout.counts(records[:half]), layout.counts(records[half:])) == expected


def test_segments_of_many_tags_take_memory_by_what_occurs() -> None:
    """Four segments of 254 tags have four thousand million combinations; three of them occur here."""
    plan = a_plan((MEAN,), 4, tags=254)
    layout, reports = Layout(plan), some_reports(a_plan((MEAN,), 4, tags=254), 3, 1)
    found = layout.counts(layout.array(b"".join(map(layout.pack, reports))))
    assert set(found) == {tuple(plan.tags(report.segment).values()) for report in reports}


def test_a_tag_that_no_segment_has_counts_as_other() -> None:
    plan = a_plan((MEAN,), 1)
    records = np.array([[*range(16), 250, 0x80]], dtype=np.uint8)
    assert list(Layout(plan).counts(records)) == [("other",)]


def test_records_that_are_cut_off_are_refused() -> None:
    layout = Layout(PLANS[0])
    with pytest.raises(ParameterError, match="expected whole records of 17 bytes, got 18 bytes"):
        layout.array(bytes(18))


@given(st.lists(st.integers(0, 5), max_size=20))
def test_batches_have_the_records_of_all_groups_in_order(sizes: list[int]) -> None:
    layout, numbers = Layout(PLANS[0]), iter(range(200))
    groups = [b"".join(next(numbers).to_bytes(17) for _ in range(size)) for size in sizes]
    assert b"".join(batch.tobytes() for batch in batches(map(layout.array, groups))) == b"".join(groups)


def test_batches_are_few_and_of_bounded_size() -> None:
    sizes = [len(batch) for batch in batches([np.zeros((1000, 17), dtype=np.uint8)] * 1000)]
    assert sizes[:-1] == [124_000] * 8
    assert sum(sizes) == 1_000_000


def test_an_id_counts_once_wherever_its_copies_are(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are far apart in the log, and share one half of the id with other ids."""
    layout = Layout(plan)
    halves = [number.to_bytes(8) for number in range(20)]
    made = [first + second + b"\x80" for first in halves for second in halves]
    groups = [layout.array(b"".join(made[place::7])) for place in (*range(7), 3, 5)]
    again = len(made[3::7]) + len(made[5::7])
    monkeypatch.setattr(records, "_BATCH_BYTES", 1)  # each group is a batch
    for at_once in (1000, 60):
        count = count_once(layout, groups, len(made) + again, Sorting(rows_at_once=at_once))
        assert (count.reports, count.repeated) == (len(made), again)
        assert count.counts[()]["minutes"] == MeanCounts(len(made), len(made))
