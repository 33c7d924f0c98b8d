"""What readers get of a plan with sampled answers: figures of windows, whose counts are those of all rounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from reticent.errors import ParameterError
from reticent.plan import Plan
from reticent_collector.cli.root import reticent as command
from reticent_collector.counts import count_reports
from reticent_collector.estimates import average, estimates_to_frame
from reticent_collector.http import Health, render_metrics
from reticent_collector.results import LruCache, Result, Results, Selection
from reticent_collector.stores import Layout, RoundKey, Store, open_store
from reticent_lab.fleet import SdkFleet
from reticent_lake.frames import estimates_from_frame

PLAN = """
min_reports = 1
[plan]
name = "weekly"
version = 1
round = "1d"
grace = "1d"

[answers]
kind = "sampled"
window = "7d"

[metrics.minutes]
kind = "mean"
unit = "minute"
max_value = 60
epsilon = 2.0

[metrics.spread]
kind = "histogram"
max_value = 60
buckets = 4
mechanism = "d-bit-flip"
bits = 1
epsilon = 4.0

[segments]
os = ["linux", "macos"]
"""
DAY, MONDAY = 86_400, 345_600 // 86_400 + 7 * 2_900
"""The number of a round that begins on a Monday in 2025."""
DEVICES = 120


def fill(store: Store, plan: Plan, rounds: range, unsealed: int | None = None) -> dict[int, list]:
    """Rounds answered by the code of real devices; their reports by round."""
    store.register(plan)
    layout, tags = Layout(plan), [{"os": ("linux", "macos")[place % 3 == 0]} for place in range(DEVICES)]
    fleet, sent = SdkFleet(plan, DEVICES, 5, tags), {}
    values = {
        "minutes": [place % 60 for place in range(DEVICES)],
        "spread": [place % 60 for place in range(DEVICES)],
    }
    for number in rounds:
        sent[number] = list(fleet.reports(number, values))
        key = RoundKey(plan.name, plan.version, number)
        store.append({key: b"".join(map(layout.pack, sent[number]))})
        if number != unsealed:
            store.seal(key)
    return sent


class World:
    def __init__(self, store: Store, unsealed: int | None = None, last: int = MONDAY + 14) -> None:
        self.plan = Plan.from_toml(PLAN)
        self.sent = fill(store, self.plan, range(MONDAY, last), unsealed)
        self.now = (MONDAY + 15) * DAY + 3600.0
        self.store, self.results = store, Results(store, lambda: self.now)

    def windows(self, **asked: object) -> list[Result]:
        return self.results.estimates(Selection("weekly", "minutes", **asked))  # type: ignore[arg-type]


@pytest.fixture
def world() -> Iterator[World]:
    """Two weeks: every device answers once in each."""
    store = open_store("memory:")
    yield World(store)
    store.close()


def test_a_figure_is_that_of_a_window_and_pools_the_counts_of_its_rounds(world: World) -> None:
    later, earlier = world.windows()
    assert [(later.round, later.to), (earlier.round, earlier.to)] == [
        (MONDAY + 7, MONDAY + 13),
        (MONDAY, MONDAY + 6),
    ]
    assert (earlier.start, earlier.end) == (MONDAY * DAY, (MONDAY + 7) * DAY)
    metric = world.plan.by_name["minutes"]
    for result in (later, earlier):
        rounds = {
            number: sum(by_metric["minutes"] for by_metric in count_reports(reports, world.plan).values())
            for number, reports in world.sent.items()
            if result.round <= number <= result.to and reports
        }
        assert result.estimate == average(metric, rounds, plan=world.plan)
        assert result.estimate.reports == DEVICES
        shown = result.to_dict()
        assert (shown["round"], shown["last_round"]) == (result.round, result.to)


def test_rounds_are_still_there_for_those_who_ask(world: World) -> None:
    single = world.windows(every="round")
    assert [result.round for result in single] == list(range(MONDAY + 13, MONDAY - 1, -1))
    assert all(result.round == result.to for result in single)
    assert sum(result.estimate.reports for result in single) == 2 * DEVICES
    assert [result.round for result in world.windows(rounds=[MONDAY + 2])] == [MONDAY + 2]
    (week,) = world.windows(rounds=[MONDAY + 2], every="window")
    assert (week.round, week.to) == (MONDAY, MONDAY + 6)


def test_the_latest_window_is_whole_however_few_are_asked_for(world: World) -> None:
    (latest,) = world.windows(last=1)
    assert (latest.round, latest.estimate.reports) == (MONDAY + 7, DEVICES)


@pytest.mark.parametrize("every", ["window", "year"])
def test_a_period_that_a_plan_does_not_have_is_refused(every: str) -> None:
    store = open_store("memory:")
    store.register(Plan.from_toml(PLAN.replace('kind = "sampled"\nwindow = "7d"', "")))
    with pytest.raises(ParameterError, match="every"):
        Results(store).estimates(Selection("weekly", every=every))
    store.close()


def test_segments_of_a_window_add_up(world: World) -> None:
    (linux, macos), (whole,) = (world.windows(last=1, **asked) for asked in ({"by": "os"}, {}))
    assert linux.counts + macos.counts == whole.counts
    assert world.windows(last=1, segment={"os": "macos"})[0].counts == macos.counts


def test_a_window_is_open_until_no_report_on_any_of_its_rounds_can_come() -> None:
    """Its last round closes a day after its end, whether it has reports yet or not."""
    store = open_store("memory:")
    world = World(store, last=MONDAY + 12)  # the last two rounds of the second week have no reports yet
    closes = world.plan.round(MONDAY + 13).closes
    for world.now, state in ((closes - 1.0, "open"), (closes + 30.0, "open"), (closes + 61.0, "sealed")):
        assert [result.state for result in world.windows()] == [state, "sealed"]
    assert {result.state for result in world.windows(every="round")} == {"sealed"}
    store.close()


def test_a_window_with_a_round_that_is_not_sealed_is_open() -> None:
    store = open_store("memory:")
    world = World(store, unsealed=MONDAY + 3)
    world.now += 30 * DAY
    assert [result.state for result in world.windows()] == ["sealed", "open"]
    store.seal(RoundKey("weekly", 1, MONDAY + 3))
    assert [result.state for result in world.windows()] == ["sealed", "sealed"]
    store.close()


def test_versions_of_a_plan_have_windows_of_their_own(world: World) -> None:
    newer = Plan.from_toml(PLAN.replace("version = 1", "version = 2"))
    fill(world.store, newer, range(MONDAY + 14, MONDAY + 21))
    assert [(result.version, result.round) for result in world.windows()] == [
        (2, MONDAY + 14),
        (1, MONDAY + 7),
        (1, MONDAY),
    ]


def test_the_newest_figures_are_those_of_the_newest_sealed_window(world: World) -> None:
    world.now = world.plan.round(MONDAY + 13).closes - 1.0
    assert {result.round for result in world.results.newest("weekly")} == {MONDAY}
    body, _ = render_metrics(world.results, Health("1.0", "memory:"), "text/plain")
    begins = world.plan.round(MONDAY).start
    (line,) = (
        line for line in body.decode().splitlines() if line.startswith("reticent_period_start_seconds")
    )
    assert float(line.split()[-1]) == begins


def test_a_table_of_windows_reads_back(world: World) -> None:
    results = world.results.estimates(Selection("weekly"))
    back = estimates_from_frame(estimates_to_frame(results))
    assert [(row.metric, row.round, row.to, row.estimate) for row in back] == [
        (result.metric.name, result.round, result.to, result.estimate) for result in results
    ]


def test_the_commands_show_windows_and_rounds(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/weekly.db"
    store = open_store(url)
    World(store)
    store.close()

    def run(*arguments: str) -> str:
        outcome = CliRunner().invoke(command, [*arguments, "--store", url], env={"COLUMNS": "200"})
        assert outcome.exit_code == 0, outcome.output
        return outcome.output

    weeks = json.loads(run("estimate", "--metric", "minutes", "--json"))["estimates"]
    assert [(week["round"], week["last_round"], week["reports"]) for week in weeks] == [
        (MONDAY + 7, MONDAY + 13, DEVICES),
        (MONDAY, MONDAY + 6, DEVICES),
    ]
    assert "clear change" in run("estimate", "--metric", "minutes")
    rounds = json.loads(run("estimate", "--metric", "minutes", "--every", "round", "--last", "3", "--json"))
    assert [row["round"] for row in rounds["estimates"]] == [MONDAY + 13, MONDAY + 12, MONDAY + 11]
    run("export", str(tmp_path / "weeks.csv"))
    header, first = (tmp_path / "weeks.csv").read_text().splitlines()[:2]
    assert dict(zip(header.split(","), first.split(","), strict=True))["last_round"] == str(MONDAY + 13)


def test_what_is_remembered_is_bounded_by_its_weight() -> None:
    cache: LruCache[str] = LruCache(10)
    for _ in range(3):  # the same again weighs no more
        cache.put("a", "A", 4)
    cache.put("b", "B", 6)
    assert (cache.get("a"), cache.get("b")) == ("A", "B")
    cache.put("c", "C", 1)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, "B", "C")


def test_a_metric_asked_for_alone_has_the_figures_it_has_among_others() -> None:
    """Groups are told by all their reports: where each answers one metric of two, also by those on the other."""
    text = PLAN.replace("min_reports = 1", "min_reports = 10").replace('"7d"', '"7d"\nmetrics = 1')
    with closing(open_store("memory:")) as store:
        fill(store, Plan.from_toml(text), range(MONDAY, MONDAY + 7))
        for metric in ("minutes", "spread"):
            for by in (None, "os"):
                together = Results(store).estimates(Selection("weekly", by=by, every="window"))
                alone = Results(store).estimates(Selection("weekly", metric, by=by, every="window"))
                assert alone == [result for result in together if result.metric.name == metric]
                assert len(together) >= 2
