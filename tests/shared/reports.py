"""Plans of all kinds, reports on them with duplicates and forgeries, and stores filled with those."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from reticent.plan import Plan
from reticent.reports import Report, pack_bits
from reticent_collector.counts import count_reports
from reticent_collector.stores import CountsByTags, Layout, RoundKey, open_store

HEAD = 'min_reports = 1\n[plan]\nname = "{name}"\nversion = 1\nround = "1h"\n'
MEAN = '[metrics.{name}]\nkind = "mean"\nunit = "minute"\nmax_value = 60\nepsilon = 1.0\n'
HISTOGRAM = '[metrics.{name}]\nkind = "histogram"\nmax_value = 64\nepsilon = 1.0\n'
HADAMARD = HISTOGRAM + 'buckets = 13\nmechanism = "hadamard-bit"\n'
D_BIT = HISTOGRAM + 'buckets = 32\nmechanism = "d-bit-flip"\nbits = {bits}\n'
SEGMENTS = '[segments]\nos = ["windows", "macos"]\nchannel = ["stable"]\n'

_METRICS = {
    "mean": MEAN.format(name="minutes"),
    "hadamard": MEAN.format(name="minutes") + HADAMARD.format(name="hours"),
    "d-bit": D_BIT.format(name="files", bits=5) + MEAN.format(name="minutes"),
    "segments": HADAMARD.format(name="hours") + SEGMENTS,
    # 70 bits in two columns, of which the first and the cohort, or the second, are a word each
    "wide": "".join(D_BIT.format(name=f"files_{n}", bits=17) for n in range(4))
    + MEAN.format(name="m")
    + SEGMENTS,
}
_SAMPLED = '[answers]\nkind = "sampled"\nwindow = "4h"\n'
_METRICS["sampled"] = _METRICS["hadamard"] + _SAMPLED
_METRICS["one-of"] = MEAN.format(name="minutes") + _METRICS["segments"] + _SAMPLED + "metrics = 1\n"
_METRICS["some-of"] = _METRICS["wide"] + _SAMPLED + "metrics = 3\n"
# which of 60 metrics are asked takes two columns
_METRICS["many"] = (
    "".join(MEAN.format(name=f"minutes_{n}") for n in range(57))
    + D_BIT.format(name="files", bits=3)
    + HADAMARD.format(name="hours")
    + HADAMARD.format(name="days")
    + SEGMENTS
    + _SAMPLED
    + "metrics = 9\n"
)
PLANS = {name: Plan.from_toml(HEAD.format(name=name) + text) for name, text in _METRICS.items()}
ROUND = 81_652


def make_reports(plan: Plan, number: int, seed: int, rounds: tuple[int, ...] = (ROUND,)) -> list[Report]:
    """Reports of which one in twenty comes twice, in random order."""
    draws = random.Random(seed)
    reports = [
        any_answers(
            Report(
                plan.name,
                plan.version,
                draws.choice(rounds),
                draws.randbytes(16),
                masked(draws.randbytes(plan.report_bytes), plan.bits),
                draws.randrange(256) if plan.uses_cohort else None,
                {segment.name: draws.choice(segment.tags) for segment in plan.segments},
            ),
            plan,
            draws,
        )
        for _ in range(number)
    ]
    reports += draws.sample(reports, number // 20)
    draws.shuffle(reports)
    return reports


def any_answers(report: Report, plan: Plan, draws: random.Random) -> Report:
    """The report with any metrics asked and the bits of others 0, where the plan asks some at a time."""
    if plan.asked == len(plan.metrics):
        return report
    asked = draws.sample(range(len(plan.metrics)), plan.asked)
    places = [number for number, metric in enumerate(plan.metrics) for _ in range(metric.bits)]
    bits = [report.bit(place) * (number in asked) for place, number in enumerate(places)]
    bitmap = pack_bits([int(number in asked) for number in range(len(plan.metrics))])
    return replace(report, bits=pack_bits(bits), asked=bitmap)


def masked(bits: bytes, width: int) -> bytes:
    """Bits beyond the last answer are 0."""
    spare = 8 * len(bits) - width
    return (int.from_bytes(bits) >> spare << spare).to_bytes(len(bits))


def forged(reports: list[Report], plan: Plan) -> list[Report]:
    """More reports under ids that are there already, with other bits, cohorts and tags."""
    draws = random.Random(99)
    others = make_reports(plan, 40, 98)
    mixed = list(reports)
    for victim, other in zip(draws.sample(reports, 40), others, strict=False):
        head = draws.choice([victim, other])
        mixed.append(
            replace(other, round=victim.round, id=victim.id, cohort=head.cohort, segment=head.segment)
        )
    draws.shuffle(mixed)
    return mixed


def smallest(reports: Iterable[Report], plan: Plan) -> dict[Any, Any]:
    """The counts by the rule of the lake, the slow way: of all records in order, the first of an id."""
    pack = Layout(plan).pack
    return count_reports(sorted(reports, key=lambda report: (report.round, pack(report))), plan)


def by_tags(counts: dict[Any, Any]) -> CountsByTags:
    """The counts of the one round that there is, as stores give them."""
    return {tags: by_metric for (_, tags), by_metric in counts.items()}


def fill(url: str, plan: Plan, reports: list[Report], group: int = 100) -> RoundKey:
    """Put reports into a store, in groups and through two collectors in turn where it is a lake."""
    key, pack = RoundKey(plan.name, plan.version, reports[0].round), Layout(plan).pack
    stores = [open_store(url) for _ in range(2 if url.startswith("lake") else 1)]
    stores[0].register(plan)
    for place, start in enumerate(range(0, len(reports), group)):
        chosen = reports[start : start + group]
        stores[place % len(stores)].append({key: b"".join(map(pack, chosen))})
    for store in stores:
        store.close()
    return key
