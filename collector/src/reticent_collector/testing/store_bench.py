"""The test bench of `check_store`: a store with a plan and reports, and assertions."""

from __future__ import annotations

import random
import secrets
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import Report
from reticent_collector.columns import COLUMNS, COMPARISON, time_text
from reticent_collector.counts import count_reports
from reticent_collector.stores import Appended, CountsByTags, Layout, PeriodKey, RoundKey, Store

PLAN = """
[plan]
name = "{name}"
version = {version}
round = "1h"
[metrics.minutes]
kind = "mean"
max_value = 60
epsilon = 1.0
[metrics.files]
kind = "histogram"
max_value = {top}
buckets = 5
mechanism = "hadamard-bit"
epsilon = 1.0
[metrics.words]
kind = "histogram"
max_value = 100
buckets = 10
mechanism = "d-bit-flip"
bits = 4
epsilon = 1.0
[segments]
os = ["windows", "macos", "linux"]
channel = ["stable", "beta"]
"""

PERIODS = (("round", 7 * 3600, 8 * 3600), ("day", 0, 86_400))  # round 7 and its day


class BrokenLawError(AssertionError):
    """A store breaks a law that reticent relies on; the message names it, and what was seen instead."""


@dataclass
class Bench:
    """A store under test, with a plan of its own and reports on it."""

    open: Callable[[], Store]
    name: str = field(default_factory=lambda: f"check-{secrets.token_hex(6)}")
    draws: random.Random = field(default_factory=lambda: random.Random(2017))  # noqa: S311

    def __post_init__(self) -> None:
        self.store = self.open()
        self.plan = self.version(1)
        self.layout = Layout(self.plan)
        self.store.register(self.plan)

    def version(self, version: int, top: int = 60) -> Plan:
        """A version of the plan; another `top` is different content."""
        return Plan.from_toml(PLAN.format(name=self.name, version=version, top=top))

    def key(self, number: int, version: int = 1) -> RoundKey:
        """A round of the plan."""
        return RoundKey(self.name, version, number)

    def reports(self, count: int, number: int = 7, plan: Plan | None = None) -> list[Report]:
        """Reports as devices send them: any id, any tags (some unknown), any bits."""
        plan, draws, reports = plan or self.plan, self.draws, []
        for _ in range(count):
            report_id, bits = draws.randbytes(16), draws.getrandbits(plan.bits) << (-plan.bits % 8)
            cohort, os = draws.randrange(256), draws.choice(["windows", "macos", "linux", "plan9"])
            tags = {"os": os, "channel": draws.choice(["stable", "beta", "canary"])}
            packed = bits.to_bytes(plan.report_bytes)
            reports.append(Report(plan.name, plan.version, number, report_id, packed, cohort, tags))
        return reports

    def append(self, reports: Iterable[Report], store: Store | None = None) -> dict[RoundKey, Appended]:
        """Append reports as one group."""
        groups: dict[RoundKey, bytes] = {}
        for report in reports:
            key = RoundKey(report.plan, report.version, report.round)
            groups[key] = groups.get(key, b"") + self.layout.pack(report)
        return (store or self.store).append(groups)

    def expected(self, reports: Iterable[Report], number: int = 7, plan: Plan | None = None) -> CountsByTags:
        """The counts of the same reports by `count_reports`."""
        cells = count_reports(reports, plan or self.plan)
        return {tags: counts for (asked, tags), counts in cells.items() if asked == number}

    def row(self, period: PeriodKey, bucket: int | None, value: float) -> dict[str, object]:
        """A row of results; other columns hold anything that fits."""
        filler: dict[str, object] = {"text": "x", "int64": 3, "float64": 0.25, "json": '{"os":"linux"}'}
        known = {
            "plan": period.plan,
            "version": period.version,
            "versions": str(period.version),
            "metric": "files" if bucket is not None else "minutes",
            "every": period.every,
            "start_time": time_text(period.start),
            "end_time": time_text(period.end),
            "bucket": bucket,
            "label": None,
            "value": value,
        }
        return {column.name: known.get(column.name, filler.get(column.type)) for column in COLUMNS}

    def comparison(self, period: PeriodKey, bucket: int | None, difference: float) -> dict[str, object]:
        """A row of comparisons with the hour before."""
        row = self.row(period, bucket, 0.0)
        known = row | {
            "against": "before",
            "baseline_segment": row["segment"],
            "baseline_start_time": time_text(period.start - 3600),
            "baseline_end_time": time_text(period.start),
            "difference": difference,
            "figure": 0.5,
            "baseline": None,
            "clear": True,
        }
        return {column.name: known[column.name] for column in COMPARISON}

    def states(self, store: Store | None = None) -> dict[RoundKey, tuple[str, int]]:
        """State and reports of each round of the plan."""
        return {info.key: (info.state, info.reports) for info in (store or self.store).rounds(self.name)}


def law(holds: bool, text: str, seen: object = "") -> None:
    """Assert a law."""
    if not holds:
        raise BrokenLawError(f"{text}; seen: {seen}" if seen != "" else text)


def same(seen: object, expected: object, text: str) -> None:
    """Assert that two things are equal."""
    law(seen == expected, text, f"{seen!r:.300} instead of {expected!r:.300}")


def refused(work: Callable[[], object], text: str) -> None:
    """Assert that something raises `StoreError`."""
    try:
        work()
    except StoreError:
        return
    raise BrokenLawError(f"{text} must raise StoreError; seen: no StoreError")


def all_at_once(*work: Callable[[], None]) -> None:
    """Run all at the same time; raises the first exception of any."""
    failed: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    law(not any(thread.is_alive() for thread in threads), "methods called from several threads return")
    for error in failed:
        raise error
