"""A report counts for the metrics it was asked about and for no others, whichever way it is counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.shared.reports import PLANS, ROUND, by_tags, fill, make_reports

from reticent.errors import ParameterError, ReportError
from reticent.mechanisms import OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent.reports import Report
from reticent_collector.counts import (
    HistogramCounts,
    MeanCounts,
    count_arrays,
    count_reports,
    counts_from_rows,
)
from reticent_collector.stores import CountsByTags, Layout, open_store
from reticent_lake.frames import count, to_arrow

SAMPLED = [name for name, plan in PLANS.items() if plan.answers.sampled]


def by_hand(plan: Plan, reports: list[Report]) -> CountsByTags:
    """Bit by bit, from the definition."""
    rows: dict[tuple[str, ...], dict[str, list[tuple[int, int, int]]]] = {}
    for report in {report.id: report for report in reports}.values():
        tags = tuple(report.segment[segment.name] for segment in plan.segments)
        of_tags = rows.setdefault(tags, {metric.name: [] for metric in plan.metrics})
        place = 0
        for number, metric in enumerate(plan.metrics):
            asked = report.asked is None or report.asked[number // 8] & 128 >> number % 8
            for row in metric.mechanism.rows_of(report.cohort or 0):
                if asked:
                    of_tags[metric.name].append((row, 1, report.bit(place)))
                place += 1
    return {
        tags: {metric.name: counts_from_rows(metric, of_tags[metric.name]) for metric in plan.metrics}
        for tags, of_tags in rows.items()
    }


@pytest.mark.parametrize("name", SAMPLED)
def test_every_way_of_counting_gives_the_same_integers(name: str, tmp_path: Path) -> None:
    plan = PLANS[name]
    reports = make_reports(plan, 300, 5)
    expected = by_hand(plan, reports)
    assert sum(counts.devices for of in expected.values() for counts in of.values()) == 300 * plan.asked
    assert by_tags(count_reports(reports, plan)) == expected
    assert by_tags(count(to_arrow(reports, plan), plan)) == expected
    distinct = list({report.id: report for report in reports}.values())
    layout = Layout(plan)
    assert layout.counts(layout.array(b"".join(map(layout.pack, distinct)))) == expected
    for url in (f"sqlite:///{tmp_path / 'store.db'}", f"lake:///{tmp_path / 'lake'}"):
        key = fill(url, plan, reports)
        store = open_store(url)
        assert store.counts(key) == expected, url
        store.seal(key)
        assert store.counts(key) == expected, f"{url}, sealed"
        assert [info.reports for info in store.rounds(plan.name)] == [300], f"{url}, sealed"
        store.close()


@pytest.mark.parametrize("name", ["one-of", "some-of", "many"])
def test_a_report_that_answers_what_it_was_not_asked_is_refused_by_name(name: str) -> None:
    plan = PLANS[name]
    (right,) = make_reports(plan, 1, 5)
    all_ones = ((1 << plan.bits) - 1 << 8 * plan.report_bytes - plan.bits).to_bytes(plan.report_bytes)
    wrong = {
        "other bits": replace(right, bits=all_ones),
        "all asked": replace(right, asked=b"\xff" * plan.asked_bytes, bits=all_ones),
        "none asked": replace(right, asked=bytes(plan.asked_bytes), bits=bytes(plan.report_bytes)),
        "nothing said": replace(right, asked=None),
        "another size": replace(right, asked=(right.asked or b"") + b"\0"),
    }
    for what, report in wrong.items():
        with pytest.raises(ReportError, match="asked"):
            count_reports([report], plan)
        with pytest.raises(ReportError, match="asked"):
            to_arrow([report], plan)
        assert what


def test_a_report_on_all_metrics_does_not_say_which() -> None:
    plan = PLANS["sampled"]
    (right,) = make_reports(plan, 1, 5)
    assert right.asked is None
    with pytest.raises(ReportError, match="asked"):
        count_reports([replace(right, asked=b"\xc0")], plan)


def test_a_metric_that_nobody_was_asked_about_has_no_reports() -> None:
    metrics = tuple(Metric(name, OneBitMean(1, 60)) for name in "ab")
    plan = Plan("p", 1, 3600, 0, metrics, answers=Answers(4, 1))
    report = Report("p", 1, ROUND, bytes(16), b"\x80", asked=b"\x80")
    expected = {"a": MeanCounts(1, 1), "b": MeanCounts(0, 0)}
    assert count_reports([report], plan) == {(ROUND, ()): expected}
    columns = [np.frombuffer(data, np.uint8).reshape(1, 1) for data in (report.bits, b"\x80")]
    assert count_arrays(plan, None, *columns) == expected
    for asked in (None, columns[1].astype(np.int64), columns[1].repeat(2, axis=1)):
        with pytest.raises(ParameterError, match="asked"):
            count_arrays(plan, None, columns[0], asked)


def test_counts_of_a_histogram_need_the_reports_that_were_asked_only() -> None:
    """With all reports counted as asked, a histogram's rows would hold answers that nobody gave."""
    plan = PLANS["one-of"]
    counted = by_tags(count_reports(make_reports(plan, 300, 5), plan))
    hours = [counts["hours"] for counts in counted.values()]
    assert all(isinstance(each, HistogramCounts) for each in hours)
    assert 0 < sum(each.devices for each in hours) < 300
