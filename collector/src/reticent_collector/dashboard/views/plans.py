"""One plan: what it asks, its privacy loss, its reports, and what needs attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple

from starlette.datastructures import QueryParams

from reticent.losses import printed
from reticent.plan import Metric, Plan
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.params import Params
from reticent_collector.dashboard.points import PointReader, card_of
from reticent_collector.dashboard.views import View
from reticent_collector.dashboard.views.what_if import what_if
from reticent_collector.plans import lint, plan_tracking
from reticent_collector.plans.matching import tracking_in_words
from reticent_collector.privacy import CLAIMS
from reticent_collector.privacy.card import PrivacyCard
from reticent_collector.results import Selection, answered_every

FLEET = 100_000  # devices, before the first report
RECENT = 20  # rounds or windows from which the usual number of devices is known
SOON_DAYS = 30

NOT_PROTECTED = (
    "Not hidden: that a device takes part, its segments, and its cohort, one byte that never changes.",
    "The figure of one round does not cover two: a memoized answer repeats its noise, it is not fresh noise.",
    f"Not covered by the same-pattern figure: {CLAIMS['lifetime'].not_covered}.",
    "When a device changes is hidden by the flips only; that it changed at all becomes visible after a while.",
)
NOT_PROTECTED_SAMPLED = (
    "Not hidden: that a device takes part, and its segments; all else in a report is drawn again per window.",
    "The figure of one window does not cover two: each window adds the same loss again, without limit.",
    f"Not covered by the figure of a window: {CLAIMS['window'].not_covered}.",
)
NEVER_PROTECTED = (
    "Network addresses are neither stored nor logged here, but everyone who transports the bytes sees them.",
    "A collector cannot distinguish false answers from noise: they move an estimate by up to its stated bound.",
)


def not_protected(plan: Plan) -> tuple[str, ...]:
    """What answering a plan does not protect, a sentence each."""
    return (NOT_PROTECTED_SAMPLED if plan.answers.sampled else NOT_PROTECTED) + NEVER_PROTECTED


def reports_shown(info: Mapping[str, Any], unit: str = "") -> str:
    """The reports of a round, as far as readers may see them; else the reason."""
    return str(info["reason"]) if info["reports"] is None else f"{info['reports']:,}{unit}"


def grouped(rounds: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The versions of each round, latest first: while a new version spreads, devices answer either."""
    return [[*versions] for _, versions in groupby(rounds, key=lambda info: info["start"])]


def last_sealed(rounds: Sequence[dict[str, Any]]) -> tuple[str, int, float]:
    """The reports of the last sealed round, in words and shown; and the usual number, 0 if that is not known yet."""
    sealed = [versions for versions in grouped(rounds) if all(info["state"] == "sealed" for info in versions)]
    shown = [sum(info["reports"] or 0 for info in versions) for versions in sealed]
    words = [f"{count:,} reports" if count else reports_shown(sealed[0][0]) for count in shown[:1]]
    return "".join(words), sum(shown[:1]), median(shown[1:]) if len(shown) >= 4 else 0.0


def round_bars(rounds: Sequence[dict[str, Any]]) -> list[charts.RoundBar]:
    """A bar per round, oldest first; the tooltip lists the versions that were answered in it."""
    bars = []
    for versions in reversed(grouped(rounds)):
        start, end = versions[0]["start"], versions[0]["end"]
        lines = [labels.span(start, end)]
        for info in versions:
            version = f", version {info['version']}" if len(versions) > 1 else ""
            lines.append(f"{reports_shown(info, ' reports')}, {info['state']}{version}")
        is_open = any(info["state"] != "sealed" for info in versions)
        reports = sum(info["reports"] or 0 for info in versions)
        bars.append(charts.RoundBar(start, end, reports, is_open, "\n".join(lines)))
    return bars


class Answered(NamedTuple):
    """The devices that answered a plan in its last round, or window, that is over."""

    words: str
    reports: int = 0
    usual: float = 0.0  # 0: not known yet


def answered(reader: PointReader, plan: Plan) -> Answered:
    """The devices that answered last, and the usual number: each reports once in a round, or in a window."""
    every = answered_every(plan)
    periods = reader.results.periods(Selection(plan.name, last=RECENT, every=every))
    sealed = [period for period in periods if period.state == "sealed"]
    if not sealed:
        return Answered("")
    last, *before = sealed
    usual = median(period.reports for period in before) if len(before) >= 3 else 0.0
    when = f"on {labels.period(last.start, last.end, 'day')}"
    if last.end - last.start != 86_400:
        when = f"in the {every} {labels.dates(last.start, last.end)}"
    devices = f"{last.reports:,} devices" if last.reports else f"fewer than {plan.min_reports:,} devices"
    known = f" ({usual:,.0f} are usual)" if usual else ""
    return Answered(f"{devices} answered {when}{known}", last.reports, usual)


def notices(plan: Plan, now: float) -> list[str]:
    """What will need attention, in sentences."""
    if not plan.expires:
        return []
    days = (plan.expires - datetime.fromtimestamp(now, UTC).date()).days
    if not 0 < days <= SOON_DAYS:
        return []
    return [f"{plan.name} expires in {days} {labels.plural('day', days)}: devices then stop answering."]


def hints(plan: Plan, rounds: Sequence[dict[str, Any]], devices: Answered, now: float) -> list[str]:
    """What needs attention, in sentences. By now there should be reports on the last round but one."""
    sentences = []
    if plan.expires and plan.expires <= datetime.fromtimestamp(now, UTC).date():
        sentences.append(f"This plan expired on {plan.expires.isoformat()}: devices no longer answer it.")
    if not rounds:
        return [
            *sentences,
            "No report has arrived yet. Devices send their first one after the end of a round.",
        ]
    behind = plan.round_at(now) - rounds[0]["round"] - 1
    if behind >= 2:
        ago = labels.duration(now - rounds[0]["end"])
        sentences.append(
            f"No recent reports: the last round with reports ended {ago} ago, {behind:,} rounds are missing. "
            "Check that devices run and can reach this collector."
        )
    damaged = [str(info["round"]) for info in rounds if info["state"] == "damaged"]
    if damaged:
        sentences.append(
            f"Damaged rounds without figures: {', '.join(damaged)}. "
            "`reticent store repair` shows what can be recovered."
        )
    if devices.reports < 0.5 * devices.usual:
        sentences.append(
            f"Only {devices.words}. Intervals are wider, and the devices that answer may differ from the others."
        )
    return sentences


def plan_page(reader: PointReader, plan: Plan, params: Params, query: QueryParams) -> View:
    """The page of a plan."""
    now = reader.results.clock()
    count = params.count("round")
    rounds = reader.results.rounds(plan.name, count)
    card = card_of(plan)
    versions = list(reader.results.versions(plan.name))
    warnings = lint(plan, today=datetime.fromtimestamp(now, UTC).date())
    problems = [*hints(plan, rounds, answered(reader, plan), now), *notices(plan, now)]
    each = Selection(plan.name, last=count, every=answered_every(plan))  # with a report of each device
    periods = reader.results.periods(each)
    fleet = max((period.reports for period in periods), default=0) or FLEET
    matched = plan_tracking(plan, fleet)
    return View(
        template="plan.html",
        title=plan.name,
        shown={
            "plan": plan,
            "params": params,
            "what_if": what_if(plan, query, fleet),
            "versions": versions,
            "presets": params.presets("round"),
            "count": count,
            "ended": [
                {
                    "name": metric.name,
                    "path": f"/plans/{plan.name}/metrics/{metric.name}",
                    "version": reader.results.metric(plan.name, metric.name)[0].version,
                }
                for metric in reader.results.ended(plan.name)
            ],
            "round": labels.duration(plan.round_seconds),
            "grace": labels.duration(plan.grace_seconds),
            "window": labels.duration(plan.answers.window * plan.round_seconds),
            "metrics": [_asked(plan, metric, card) for metric in plan.metrics],
            "groups": [
                {
                    "name": group.name,
                    "metrics": ", ".join(group.metrics),
                    "limit": labels.rounded(float(group.max_total), 6),
                    "losses": card.figures(card.groups[group.name]),
                }
                for group in plan.groups
            ],
            "card": claims(card),
            "tracking": tracking_in_words(matched),
            "not_protected": not_protected(plan),
            "warnings": warnings,
            "hints": problems,
            "chart": charts.reports_per_round(round_bars(rounds), f"reports per round of {plan.name}")
            if rounds
            else "",
            "rounds": [
                info
                | {
                    "when": labels.span(info["start"], info["end"]),
                    "until": "" if info["state"] == "sealed" else f"{labels.moment(info['closes'])} UTC",
                    "reports": reports_shown(info),
                }
                for info in rounds
            ],
        },
        data=f"/v1/rounds?plan={plan.name}&last={count}",
        refresh=30 if any(info["state"] != "sealed" for info in rounds) else 120,
    )


def _asked(plan: Plan, metric: Metric, card: PrivacyCard) -> dict[str, Any]:
    """What is asked for a metric, and its privacy loss."""
    mechanism = metric.mechanism
    top = f"{labels.rounded(float(metric.max_value), 6)} {labels.plural(metric.unit)}".strip()
    return {
        "metric": metric,
        "path": f"/plans/{plan.name}/metrics/{metric.name}",
        "mechanism": mechanism.title,
        "range": metric.range_in_words(top),
        "epsilon": printed(float(mechanism.epsilon)),
        "flip": labels.percent(float(metric.flip.probability)),
        "losses": card.figures(card.metrics[metric.name]),
    }


def claims(card: PrivacyCard) -> list[dict[str, Any]]:
    """The claims of a card: each with its loss as ε, rounded up, as the odds it may shift, and in words."""
    return [
        {
            "name": title,
            "loss": {"epsilon": printed(epsilon), "odds": labels.odds(epsilon)},
            "says": CLAIMS[which].says(epsilon, card.time),
        }
        for which, title in card.columns.items()
        for epsilon in [getattr(card, which)]
    ]
