"""What `/metrics` says of figures: the same as `Results`, bounded, and nothing of groups that are too small."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from tests.shared.collectors import make_reports

from reticent.plan import Plan
from reticent_collector.estimates import Estimate, difference
from reticent_collector.http import Health, exposition, render_metrics
from reticent_collector.results import Results, Selection
from reticent_collector.stores import Layout, RoundKey, Store, open_store

PLAN = """
min_reports = 50
[plan]
name = "p"
version = 1
round = "1d"
grace = "1h"
owner = "a@example.org"
[metrics.hours]
kind = "mean"
unit = "hour"
max_value = 24
epsilon = 1.0
flip = 0.2
[metrics.spread]
kind = "histogram"
unit = "hour"
max_value = 1234567
edges = [0, 1, 4, 1234567]
epsilon = 1.0
flip = 0.2
mechanism = "hadamard-bit"
[metrics.theme]
kind = "choice"
labels = ["light", "dark"]
mechanism = "hadamard-bit"
epsilon = 1.0
flip = 0.2
[segments]
os = ["linux", "macos"]
"""
Samples = dict[tuple[str, ...], float]


@pytest.fixture
def store() -> Iterator[Store]:
    opened = open_store("memory:")
    yield opened
    opened.close()


def fill(store: Store, plan: Plan, sizes: dict[int, int]) -> None:
    """Sealed rounds with so many reports each; the devices of a round have the same tags in turn."""
    store.register(plan)
    layout = Layout(plan)
    for number, reports in sizes.items():
        key = RoundKey(plan.name, plan.version, number)
        store.append({key: b"".join(layout.pack(report) for report in make_reports(plan, number, reports))})
        store.seal(key)


def samples(store: Store, name: str, results: Results | None = None) -> Samples:
    body, _ = render_metrics(results or Results(store), Health("1.0", "memory:"), "text/plain")
    order = ("metric", "segment", "tag", "bucket", "bucket_low", "bucket_high", "label")
    return {
        tuple(sample.labels.get(label, "") for label in order): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.name == f"reticent_{name}"
    }


def by_label(name: str, store: Store, plan: Plan) -> Samples:
    """The same from the counts, by the estimator."""
    expected: Samples = {}
    results = Results(store)
    for by in (None, "os"):
        for result in results.estimates(Selection(plan.name, last=1, by=by, every="day")):
            tag = ("os", result.segment["os"]) if by else ("", "")
            mean = isinstance(result.estimate, Estimate)
            for place, number in enumerate((result.estimate,) if mean else result.estimate.buckets):  # type: ignore[union-attr]
                edges = ("", "") if number.edges is None else tuple(f"{edge:.15g}" for edge in number.edges)
                key = (result.metric.name, *tag, "" if mean else str(place), *edges, number.label)
                expected[key] = getattr(number, name)
    return expected


def test_figures_are_those_of_the_newest_sealed_period_with_edges_and_segments(
    store: Store,
) -> None:
    plan = Plan.from_toml(PLAN)
    fill(store, plan, {100: 300, 101: 400})
    for part in ("value", "lower", "upper"):
        found = samples(store, f"estimate_{part}")
        assert found == by_label(part, store, plan)
    assert {("spread", "", "", "2", "4", "1234567", ""), ("hours", "os", "linux", "", "", "", "")} <= set(
        found
    )
    assert ("theme", "os", "macos", "0", "", "", "light") in found
    assert samples(store, "estimate_reports")["hours", "", "", "", "", "", ""] == 400
    end = samples(store, "period_end_seconds")
    assert [*end.values()] == [plan.round(101).end]


def test_a_change_is_against_four_weeks_before_and_holds_at_once_for_all_metrics(store: Store) -> None:
    plan = Plan.from_toml(PLAN)
    fill(store, plan, {101 - 28: 300, 100: 300, 101: 400})
    newest, _, before = Results(store).estimates(Selection(plan.name, "hours", every="day"))
    at_once = 1 - 0.05 / len(plan.metrics)
    expected = difference(newest.metric, newest.by_round, before.by_round, at_once)  # type: ignore[arg-type]
    assert isinstance(expected, Estimate)
    for part in ("value", "lower", "upper"):
        found = samples(store, f"change_{part}")
        assert found["hours", "", "", "", "", "", ""] == pytest.approx(getattr(expected, part))
        assert set(found) == set(samples(store, "estimate_value"))
    fill(store, plan, {103: 400})
    assert samples(store, "change_value") == {}  # round 103 - 28 is missing
    newer = Plan.from_toml(PLAN.replace("version = 1", "version = 2"))
    fill(store, newer, {101 + 28: 400})
    assert set(samples(store, "change_value")) == set(samples(store, "estimate_value"))
    other = Plan.from_toml(PLAN.replace("version = 1", "version = 3").replace("epsilon = ", "epsilon = 1"))
    fill(store, other, {103 + 28: 400})
    assert samples(store, "change_value") == {}  # all parameters changed


def test_a_period_with_too_few_reports_is_not_shown_and_is_seen_to_be_missing(
    store: Store,
) -> None:
    plan = Plan.from_toml(PLAN)
    fill(store, plan, {100: 200, 101: 300, 102: 1000, 103: 49})
    (reports,), (usual,), (withheld,) = (
        samples(store, name).values()
        for name in ("period_reports", "period_reports_usual", "estimate_withheld")
    )
    assert (reports, usual, withheld) == (0, 300, 1)
    assert [*samples(store, "period_end_seconds").values()] == [plan.round(102).end]
    fill(store, plan, {104: 60})
    assert [*samples(store, "estimate_withheld").values()] == [0]
    # No tag has 50 of the 60.
    assert {key[1:3] for key in samples(store, "estimate_value")} == {("", ""), ("os", "(few)")}


def test_the_number_of_series_is_bounded_by_the_plan_alone(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 + 3 + 3 numbers of the fleet, and as many of three tags and the rare ones: the fleet first, metrics whole."""
    plan = Plan.from_toml(PLAN)
    fill(store, plan, {100: 600})
    assert len(samples(store, "estimate_value")) == 7 * (1 + 3)
    assert [*samples(store, "estimate_left_out").values()] == [0]
    for most, metrics, left_out in (
        (7 * 5, 3 + 3, 0),
        (7 * 5 - 1, 3 + 2, 12),
        (7, 3, 28),
        (6, 2, 31),
        (3, 1, 34),
    ):
        monkeypatch.setattr(exposition, "MOST_NUMBERS", most)
        assert len({key[:2] for key in samples(store, "estimate_value")}) == metrics
        assert [*samples(store, "estimate_left_out").values()] == [left_out]


def test_a_day_of_several_rounds_is_pooled_and_compared_as_results_do(store: Store) -> None:
    """Rounds of six hours: `/metrics` says of the newest sealed day what `Results` says of it."""
    plan = Plan.from_toml(PLAN.replace('round = "1d"', 'round = "6h"'))
    fill(store, plan, dict.fromkeys([*range(404 - 28 * 4, 408 - 28 * 4), *range(404, 408)], 200))
    results = Results(store)
    selection = Selection(plan.name, "hours", last=1, every="day")
    (day,) = results.estimates(selection)
    strict = replace(selection, against="4-weeks", confidence=1 - 0.05 / len(plan.metrics))
    (change,) = results.changes(strict)
    assert (day.period.every, len(day.period.rounds)) == ("day", 4)
    for part in ("value", "lower", "upper"):
        where = ("hours", "", "", "", "", "", "")
        assert samples(store, f"estimate_{part}", results)[where] == getattr(day.estimate, part)
        assert samples(store, f"change_{part}", results)[where] == getattr(change.estimate, part)
    assert len(samples(store, "cohort_p_value", results)) > 0


def test_what_is_remembered_of_a_sealed_period_gives_way_to_the_next(store: Store) -> None:
    plan, results = Plan.from_toml(PLAN), Results(store)
    for number in (100, 101, 102):
        fill(store, plan, {number: 300 + number})
        for name in ("estimate_value", "estimate_reports", "change_value", "change_upper"):
            fresh = samples(store, name)
            assert samples(store, name, results) == fresh
            assert samples(store, name, results) == fresh


def test_sealed_figures_are_written_as_text_once_in_each_format(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, results = Plan.from_toml(PLAN), Results(store)
    fill(store, plan, {100: 300})
    written: list[str] = []
    original = exposition._families

    def counted(texts: Mapping[str, Any], samples: Iterable[Any]) -> list[Any]:
        written.extend(texts)
        return original(texts, samples)

    monkeypatch.setattr(exposition, "_families", counted)
    formats = ("text/plain", "application/openmetrics-text; version=1.0.0")
    health = Health("1.0", "memory:")
    for number in (101, 102):
        written.clear()
        bodies = [render_metrics(results, health, accept)[0] for accept in formats * 3]
        assert written.count("estimate_value") == len(formats)
        assert written.count("period_reports") == len(bodies), "what changes without a seal"
        parsers = text_string_to_metric_families, openmetrics.text_string_to_metric_families
        for body, parse in zip(bodies, parsers * 3, strict=True):
            values = {
                (sample.labels["metric"], sample.labels["tag"]): sample.value
                for family in parse(body.decode())
                for sample in family.samples
                if sample.name == "reticent_estimate_reports"
            }
            assert values["hours", ""] == number - 100 + 299
        assert [body.count(b"# EOF\n") for body in bodies] == [0, 1] * 3
        fill(store, plan, {number: 300 + number - 100})


def test_what_is_remembered_of_a_deleted_metric_is_not_shown(store: Store) -> None:
    """The newest sealed day is of a version that asked it, and the newest version does not."""
    plan, results = Plan.from_toml(PLAN), Results(store)
    fill(store, plan, {100: 300})
    start, end = PLAN.index("[metrics.theme]"), PLAN.index("[segments]")
    store.register(Plan.from_toml((PLAN[:start] + PLAN[end:]).replace("version = 1", "version = 2")))
    assert "theme" in {key[0] for key in samples(store, "estimate_value", results)}
    store.delete_metric("p", "theme")
    assert {key[0] for key in samples(store, "estimate_value", results)} == {"hours", "spread"}
