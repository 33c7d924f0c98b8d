"""
An attacker with a reader's key, who asks for everything after every single report.

Report i of a round says 1 in bucket i alone. So each figure tells, without any doubt, which reports it is made
of, and what all figures together tell is told apart by them: reports that are in the same figures are one group.
Every sum and difference of figures has whole groups in it. docs/explanation/readers.md says how large they are.
"""

from __future__ import annotations

import csv
import io
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow
import pytest
from click.testing import CliRunner

from reticent.plan import Plan
from reticent.reports import Report, pack_bits, to_json
from reticent_collector import dashboard
from reticent_collector.cli.root import reticent as command
from reticent_collector.counts import HistogramCounts, MeanCounts, count_reports
from reticent_collector.estimates import estimate
from reticent_collector.http import Collector
from reticent_collector.results import Results, Selection
from reticent_collector.stores import (
    FEW,
    CountsByTags,
    RoundKey,
    Step,
    create_key,
    folded,
    open_store,
    reports_of,
)
from reticent_lake.frames import estimates_from_frame

NOW = 1_763_640_000
REPORTS = 48
LEAST = 5
WEIGHTS = {
    ("linux", "beta"): 10,
    ("linux", "other"): 7,
    ("mac", "beta"): 4,
    ("mac", "other"): 1,
    ("other", "beta"): 1,
}


def watched(least: int, reports: int = REPORTS) -> Plan:
    """A plan whose only metric has a bucket, and a bit, for each report."""
    return Plan.from_toml(
        f'min_reports = {least}\n[plan]\nname = "watched"\nversion = 1\nround = "1h"\ngrace = "1h"\n'
        f'[metrics.who]\nkind = "histogram"\nmax_value = {reports}\nbuckets = {reports}\n'
        f'mechanism = "d-bit-flip"\nbits = {reports}\nepsilon = 1.0\n'
        '[segments]\nos = ["linux", "mac"]\nchannel = ["beta"]\n'
    )


def report(plan: Plan, place: int, tags: tuple[str, str]) -> Report:
    rows = plan.metrics[0].mechanism.rows_of(0)
    bits = pack_bits([int(row == place) for row in rows])
    segment = dict(zip(("os", "channel"), tags, strict=True))
    return Report(plan.name, 1, plan.round_at(NOW), place.to_bytes(16, "big"), bits, None, segment)


def members(plan: Plan, figure: dict[str, Any]) -> frozenset[int]:
    """The reports that a figure is made of: value and ones are on one line."""
    size = len(figure["buckets"])
    none, all_of_them = (
        estimate(plan.metrics[0], HistogramCounts((9,) * size, (ones,) * size, size)).buckets[0].value
        for ones in (0, 9)
    )
    ones = [
        figure["reports"] * (bucket["value"] - none) / (all_of_them - none) for bucket in figure["buckets"]
    ]
    assert all(min(abs(one), abs(one - 1)) < 1e-6 for one in ones)
    found = frozenset(place for place, one in enumerate(ones) if one > 0.5)
    assert len(found) == figure["reports"]  # the number beside a figure is that of what is shown
    return found


def groups(figures: Iterable[frozenset[int]]) -> list[int]:
    """The sizes of the groups that figures are made of, smallest first; reports in no figure are in no group."""
    columns: dict[int, list[int]] = {}
    for place, figure in enumerate(figures):
        for one in figure:
            columns.setdefault(one, []).append(place)
    return sorted(Counter(map(tuple, columns.values())).values())


def test_the_groups_of_figures() -> None:
    assert groups([frozenset({1, 2, 3}), frozenset({1, 2, 3, 4, 5})]) == [2, 3]
    assert groups([frozenset({1, 2, 3}), frozenset({2, 3, 4})]) == [1, 1, 2]
    assert groups([]) == []


# Through HTTP


class Attack:
    """Collectors on one store, each with its own reports, and all that their readers ever saw."""

    def __init__(self, tools: Any, plan: Plan, url: str, number: int) -> None:
        self.tools, self.plan, self.url, self.number = tools, plan, url, number
        self.key = RoundKey(plan.name, 1, plan.round_at(NOW))
        self.now = float(NOW)
        self.while_open: set[frozenset[int]] = set()
        self.after: set[frozenset[int]] = set()
        opened = open_store(url)
        self.secret, key = create_key("admin", "", NOW)
        opened.register(plan)
        opened.add_key(key)
        opened.close()

    def __enter__(self) -> Attack:
        self.running = ExitStack()
        self.apps = [
            Collector([self.plan], open_store(self.url), clock=lambda: self.now, seal_every=1e6)
            for _ in range(self.number)
        ]
        self.services = [self.running.enter_context(self.tools.in_thread(app)) for app in self.apps]
        return self

    def __exit__(self, *error: object) -> None:
        self.running.close()

    def send(self, place: int, tags: tuple[str, str]) -> None:
        """A report up to three times to the collectors; all take the steps that they can take; then readers look."""
        for turn in range(1 + place % 3):
            service = self.services[(place + turn) % self.number]
            assert service.post(to_json(report(self.plan, place, tags)), key=self.secret).status == 202
        for app in self.apps:
            app.store.take_step(self.key)
        self.while_open |= self.look(self.services[place % 3 % self.number])

    def look(self, service: Any) -> set[frozenset[int]]:
        """Everything that can be asked for, of one of the collectors."""
        picks = [f"segment={quote(f'os:{tag}')}&by=channel" for tag in ("linux", "mac", "other", FEW)]
        seen = set()
        for question in ["by=os", "by=channel", *picks]:
            answer = service.get(f"/v1/estimates?plan=watched&{question}", self.secret).json
            seen |= {members(self.plan, figure) for figure in answer["estimates"]}
        total = service.get("/v1/estimates?plan=watched", self.secret).json["estimates"]
        (row,) = service.get("/v1/rounds?plan=watched", self.secret).json["rounds"]
        assert row["reports"] == (total[0]["reports"] if total else None)
        return seen | {members(self.plan, figure) for figure in total}

    def seal(self) -> None:
        assert self.apps[0].store.seal(self.key)
        self.after = set().union(*map(self.look, self.services))


def arrivals(seed: int) -> list[tuple[str, str]]:
    draw = random.Random(seed)
    return draw.choices(list(WEIGHTS), list(WEIGHTS.values()), k=REPORTS)


@pytest.fixture
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    def url(kind: str) -> str:
        if kind == "postgresql":
            return str(request.getfixturevalue("postgres").new_database())
        return f"sqlite:///{tmp_path / 'store.db'}" if kind == "sqlite" else f"lake:///{tmp_path / 'lake'}"

    return url


@pytest.mark.parametrize(
    ("kind", "collectors", "restarts"),
    [("sqlite", 1, ()), ("sqlite", 2, (29,)), ("postgresql", 2, ()), ("lake", 2, ())],
)
def test_polling_after_every_report_shows_no_group_below_the_least(
    tools: Any, urls: Callable[[str], str], kind: str, collectors: int, restarts: tuple[int, ...]
) -> None:
    attack = Attack(tools, watched(LEAST), urls(kind), collectors)
    sent = list(enumerate(arrivals(1)))
    for first, last in zip((0, *restarts), (*restarts, REPORTS), strict=True):
        with attack:
            for place, tags in sent[first:last]:
                attack.send(place, tags)
            if last == REPORTS:
                attack.seal()
    assert groups(attack.while_open | attack.after)[0] >= LEAST
    assert frozenset(range(REPORTS)) in attack.after  # after the seal nothing is left out
    assert bool(attack.while_open) == (kind != "lake")  # and before it something is seen


def test_the_attack_finds_every_single_report_where_the_rule_is_lifted(tools: Any, tmp_path: Path) -> None:
    with Attack(tools, watched(1), f"sqlite:///{tmp_path / 'store.db'}", 1) as attack:
        for place, tags in enumerate(arrivals(1)[:12]):
            attack.send(place, tags)
    assert groups(attack.while_open) == [1] * 12


# The rule itself, enumerated


def counted(plan: Plan, sent: list[tuple[str, str]]) -> CountsByTags:
    reports = [report(plan, place, tags) for place, tags in enumerate(sent)]
    return {tags: counts for (_, tags), counts in count_reports(reports, plan).items()}


def shown(counts: CountsByTags) -> Iterator[frozenset[int]]:
    """Every sum of cells that a reader can ask for: all tags, or those of any one segment, or of both."""
    for kept in product((False, True), repeat=2):
        sums: dict[tuple[str, ...], set[int]] = {}
        for tags, by_metric in counts.items():
            group = tuple(tag if keep else "" for tag, keep in zip(tags, kept, strict=True))
            ones = by_metric["who"].ones
            assert isinstance(ones, tuple)
            sums.setdefault(group, set()).update(place for place, one in enumerate(ones) if one)
        yield from map(frozenset, sums.values())


def test_every_arrival_in_every_order_with_steps_at_any_time() -> None:
    """Six reports, each with either of two tags, least 2; after each of them a step is tried, or not."""
    plan = watched(2, 6)
    cells = [("linux", "beta"), ("mac", "beta")]
    prefixes = {
        sent: counted(plan, list(sent))
        for length in range(1, 7)
        for sent in product(cells, repeat=length)
    }  # fmt: skip
    for sent in product(cells, repeat=6):
        for tries in product((False, True), repeat=6):
            step, figures = Step(), set(shown(folded(plan, prefixes[sent])))
            for length, is_tried in enumerate(tries, 1):
                counts = prefixes[sent[:length]]
                if is_tried and step.is_due(plan, length):
                    step = step.following(plan, counts, length)
                figures |= set(shown(step.shown))
            assert groups(figures)[0] >= 2, (sent, tries)


def test_a_chain_may_be_lost_at_any_time() -> None:
    """A step is tried after each report; after any two of them all that was kept of steps is gone."""
    plan = watched(2, 9)
    draw = random.Random(3)
    seen_open = 0
    for _ in range(60):
        sent = draw.choices([("linux", "beta"), ("linux", "other"), ("mac", "beta")], [6, 3, 1], k=9)
        counts = [counted(plan, sent[:length]) for length in range(10)]
        for losses in product(range(1, 9), repeat=2):
            step, figures = Step(), set(shown(folded(plan, counts[9])))
            for length in range(1, 10):
                step = Step() if length in losses else step
                if step.is_due(plan, length):
                    step = step.following(plan, counts[length], length)
                figures |= set(shown(step.shown))
                seen_open += bool(step.shown)
            assert groups(figures)[0] >= 2, (sent, losses)
    assert seen_open


@pytest.mark.parametrize("least", [2, 3, 4])
def test_every_sealed_round_of_up_to_seven_reports(least: int) -> None:
    """All numbers of reports in four combinations of tags: nothing is lost but whole rounds that are too small."""
    plan = watched(least, 7)
    cells = list(product(("linux", "mac"), ("beta", "other")))
    for sizes in product(range(8), repeat=4):
        if 0 < sum(sizes) <= 7:
            sent = [tags for tags, size in zip(cells, sizes, strict=True) for _ in range(size)]
            folds = folded(plan, counted(plan, sent))
            assert folds == folded(plan, dict(reversed(counted(plan, sent).items())))  # in any order
            if len(sent) < least:
                assert folds == {}
                continue
            assert groups(shown(folds))[0] >= least
            assert reports_of(plan, folds) == len(sent)
            large = {tags for tags, size in zip(cells, sizes, strict=True) if size >= least}
            assert (
                len(large - folds.keys()) <= 1
            )  # one may take in a rest that is too small; others keep names


def test_rare_tags_lose_their_last_one_first() -> None:
    plan = watched(3, 12)
    sent = 4 * [("linux", "beta")] + 2 * [("mac", "beta")] + [("mac", "other")] + 5 * [("other", "other")]
    sizes = {tags: reports_of(plan, {tags: cell}) for tags, cell in folded(plan, counted(plan, sent)).items()}
    assert sizes == {("linux", "beta"): 4, ("mac", FEW): 3, ("other", "other"): 5}
    sent[4:7] = [("mac", "beta"), ("other", "beta"), ("other", "beta")]
    sizes = {tags: reports_of(plan, {tags: cell}) for tags, cell in folded(plan, counted(plan, sent)).items()}
    assert sizes == {("linux", "beta"): 4, (FEW, FEW): 3, ("other", "other"): 5}
    sent[4:7] = [("mac", "beta"), ("linux", "beta"), ("linux", "beta")]
    sizes = {tags: reports_of(plan, {tags: cell}) for tags, cell in folded(plan, counted(plan, sent)).items()}
    assert sizes == {("linux", "beta"): 6, (FEW, FEW): 6}  # one alone takes in the smallest that is shown


def test_which_groups_there_are_depends_on_no_answer() -> None:
    plan = watched(2, 6)
    sent = [("linux", "beta"), ("mac", "beta"), ("linux", "beta"), ("linux", "beta"), ("mac", "other")]
    key = tuple[str, ...]
    partitions: set[tuple[tuple[tuple[key, int], ...], ...]] = set()
    for answers in product((0, 1), repeat=len(sent)):
        step, seen = Step(), []
        for length in range(1, len(sent) + 1):
            cells: dict[key, int] = Counter(sent[:length])
            ones: dict[key, int] = Counter()
            for tags, answer in zip(sent[:length], answers, strict=False):
                ones[tags] += answer
            size = plan.metrics[0].mechanism.row_count
            counts: CountsByTags = {
                tags: {"who": HistogramCounts((number,) * size, (ones[tags],) * size, size)}
                for tags, number in cells.items()
            }
            step = step.following(plan, counts, length) if step.is_due(plan, length) else step
            for part in (step.shown, folded(plan, counts)):
                seen.append(tuple((tags, reports_of(plan, {tags: part[tags]})) for tags in sorted(part)))
        partitions.add(tuple(seen))
    assert len(partitions) == 1


def test_a_step_is_what_was_kept_of_it() -> None:
    plan = watched(2, 6)
    sent = 4 * [("linux", "beta")]
    step = Step().following(plan, counted(plan, sent[:2]), 2).following(plan, counted(plan, sent), 4)
    assert Step.from_json(plan, step.number, step.to_json()) == step
    assert (step.number, step.reports, list(step.shown)) == (2, 4, [("linux", "beta")])


def test_a_large_round_takes_few_steps() -> None:
    plan = watched(100)
    steps, step = 0, Step()
    for reports in range(0, 1_000_000, 50):
        if step.is_due(plan, reports):
            steps, step = steps + 1, Step(step.number + 1, reports)
    assert steps < 120


def test_the_collector_takes_steps_by_itself(tools: Any) -> None:
    plan, store = watched(LEAST), open_store("memory:")
    collector = Collector([plan], store, clock=lambda: NOW, seal_every=0.01)
    key = RoundKey(plan.name, 1, plan.round_at(NOW))
    with tools.in_thread(collector) as service:
        for step in (1, 2):
            for place in range(LEAST):
                sent = report(plan, step * LEAST + place, ("mac", "beta"))
                assert service.post(to_json(sent)).status == 202
            deadline = time.monotonic() + 20
            while (store.backend.step(key) or (0, ""))[0] < step:
                assert time.monotonic() < deadline
                time.sleep(0.005)
        (row,) = service.get("/v1/estimates?plan=watched").json["estimates"]
    assert (row["state"], row["reports"]) == ("open", LEAST)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_step_is_taken_once_and_what_comes_late_changes_nothing(
    urls: Callable[[str], str], kind: str
) -> None:
    """A collector that computed a step from an old one, and was held up, is not heard."""
    plan, url = watched(LEAST), urls(kind)
    one, two = open_store(url), open_store(url)
    one.register(plan)
    key = RoundKey(plan.name, 1, plan.round_at(NOW))
    one.append({key: one.layout(key).pack(report(plan, 0, ("mac", "beta")))})
    one.backend.put_step(key, 1, '"first"')
    two.backend.put_step(key, 1, '"another first"')
    assert two.backend.step(key) == (1, '"first"')
    one.backend.put_step(key, 2, '"second"')
    two.backend.put_step(key, 1, '"late"')
    two.backend.put_step(key, 2, '"another second"')
    assert one.backend.step(key) == two.backend.step(key) == (2, '"second"')
    assert two.seal(key)
    one.backend.put_step(key, 3, '"after the seal"')
    assert one.backend.step(key) is None
    for store in (one, two):
        store.close()


def test_a_step_counts_all_that_was_counted_before(urls: Callable[[str], str]) -> None:
    """Another collector takes a step while this one is about to, and takes reports: the next step holds all."""
    plan, url = watched(2), urls("sqlite")
    one, two = open_store(url), open_store(url)
    one.register(plan)
    key = RoundKey(plan.name, 1, plan.round_at(NOW))

    def send(store: Any, first: int, last: int) -> None:
        records = [
            store.layout(key).pack(report(plan, place, ("mac", "beta"))) for place in range(first, last)
        ]
        store.append({key: b"".join(records)})

    send(one, 0, 3)
    original = one.backend.step

    def interrupted(key: RoundKey) -> Any:
        one.backend.step = original
        send(two, 3, 6)
        two.take_step(key)
        send(one, 6, 12)
        return original(key)

    one.backend.step = interrupted
    one.take_step(key)
    send(one, 12, 15)
    one.take_step(key)
    (counts,) = one.shown(key).values()
    assert counts["who"].devices == 12
    for store in (one, two):
        store.close()


def test_a_step_that_would_keep_commits_waiting_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reticent_collector.stores.store.MOST_STEP_BYTES", 10)
    plan, store = watched(LEAST), open_store("memory:")
    store.register(plan)
    key = RoundKey(plan.name, 1, plan.round_at(NOW))
    for place in range(3 * LEAST):
        store.append({key: store.layout(key).pack(report(plan, place, ("mac", "beta")))})
        store.take_step(key)
    assert store.shown(key) == {}
    store.close()


# What is said where a figure is withheld


def test_every_form_of_an_answer_says_that_a_figure_is_withheld(tools: Any, tmp_path: Path) -> None:
    plan, url = watched(LEAST), f"sqlite:///{tmp_path / 'store.db'}"
    store, now = open_store(url), NOW
    collector = Collector([plan], store, clock=lambda: now, seal_every=1e6, pages=dashboard)
    key = RoundKey(plan.name, 1, plan.round_at(NOW))
    words = f"fewer than {LEAST} reports"
    with tools.in_thread(collector) as service:
        for place in range(LEAST - 1):
            assert service.post(to_json(report(plan, place, ("mac", "beta")))).status == 202
        answer = service.get("/v1/estimates?plan=watched&every=round").json
        assert answer["estimates"] == []
        assert [row["reason"] for row in answer["withheld"]] == [
            f"an open round is shown in steps of at least {LEAST} reports"
        ]
        assert store.seal(key)
        (row,) = service.get("/v1/estimates?plan=watched&every=round").json["withheld"]
        assert (row["metric"], row["state"], row["reports"], row["reason"]) == ("who", "sealed", None, words)
        (line,) = csv.DictReader(
            io.StringIO(service.get("/v1/estimates?plan=watched&every=round&format=csv").body.decode())
        )
        assert (line["metric"], line["kind"], line["value"], line["reports"]) == ("who", "histogram", "", "")
        stream = service.get("/v1/estimates?plan=watched&every=round&format=arrow").body
        table = pyarrow.ipc.open_stream(stream).read_all()
        assert (table["value"].to_pylist(), table["reports"].to_pylist()) == ([None], [None])
        assert estimates_from_frame(table) == []
        now += 2 * 86_400  # /metrics is about days, and this one is over now
        metrics = service.get("/metrics").body.decode()
        assert 'reticent_estimate_withheld{plan="watched"} 1.0' in metrics
        assert "reticent_estimate_value{" not in metrics
        assert words in service.get("/plans/watched").body.decode()
        assert "No estimate yet" in service.get("/plans/watched/metrics/who").body.decode()
    for command_line in (["estimate", "--every", "round"], ["rounds"]):
        printed = CliRunner().invoke(command, [*command_line, "--store", url])
        assert printed.exit_code == 0
        assert words in printed.output
    exported = tmp_path / "estimates.csv"
    printed = CliRunner().invoke(command, ["export", str(exported), "--store", url])
    assert printed.output.startswith("0 estimates written")


def test_a_round_that_is_too_small_is_only_words(tmp_path: Path) -> None:
    plan = watched(LEAST)
    for number in (0, 1, LEAST - 1, LEAST):
        store = open_store(f"sqlite:///{tmp_path / f'{number}.db'}")
        store.register(plan)
        key = RoundKey(plan.name, 1, plan.round_at(NOW))
        for place in range(number):
            record = store.layout(key).pack(report(plan, place, ("mac", "other")))
            store.append({key: record})
        store.seal(key)
        answer = Results(store, lambda: NOW).estimates(Selection("watched", by="os", every="round"))
        if number == LEAST:
            assert [figure.segment for figure in answer] == [{"os": "mac"}]
        elif number:
            assert list(answer) == []
            assert {figure.reason for figure in answer.withheld} == {f"fewer than {LEAST} reports"}
            assert all(figure.to_dict()["reports"] is None for figure in answer.withheld)
            (row,) = Results(store, lambda: NOW).rounds()
            assert (row["reports"], row["reason"]) == (None, f"fewer than {LEAST} reports")
        store.close()


def test_counts_of_a_mean_are_folded_too() -> None:
    plan = Plan.from_toml(
        'min_reports = 5\n[plan]\nname = "p"\nversion = 1\nround = "1h"\n'
        '[metrics.m]\nkind = "mean"\nmax_value = 1\nepsilon = 1.0\n[segments]\nos = ["linux"]\n'
    )
    counts: CountsByTags = {("linux",): {"m": MeanCounts(7, 3)}, ("other",): {"m": MeanCounts(4, 1)}}
    assert folded(plan, counts) == {(FEW,): {"m": MeanCounts(11, 4)}}
