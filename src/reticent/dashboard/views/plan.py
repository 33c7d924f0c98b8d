"""A plan: what it asks, what that costs a device in plain words, and who answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from reticent.dashboard import charts, words
from reticent.dashboard.asking import Asked
from reticent.dashboard.figures import Figures
from reticent.dashboard.views.metric import round_choices
from reticent.dashboard.views.overview import hints
from reticent.dashboard.views.view import View
from reticent.plan import Metric, Plan
from reticent.plan.card import PrivacyCard
from reticent.plan.lint import lint

NOT_PROTECTED = (
    "That a device takes part is public, and so are its segments and its cohort, one byte for ever.",
    "One round's figure is not a lifetime's: remembered answers are the same noise again, not fresh noise.",
    "The figures for life compare devices that change in the same rounds. Between devices that change at "
    "different times nothing bounds the loss over many rounds.",
    "When a device changes is hidden by flips only; that it changed at all shows after a while.",
    "Network addresses are neither kept nor logged here, but whoever carries the bytes sees them.",
    "A collector cannot tell a lie from noise: dishonest reports move an estimate by as much as it says.",
)


def plan_page(figures: Figures, plan: Plan, asked: Asked) -> View:
    """The page of a plan."""
    now = figures.now()
    rounds = figures.reader.rounds(plan.name, asked.rounds)
    card = figures.card(plan)
    versions = figures.versions(plan.name)
    warnings = lint(plan, today=datetime.fromtimestamp(now, UTC).date())
    said = hints(plan, rounds, now)
    return View(
        template="plan.html",
        title=plan.name,
        twin={
            "name": plan.name,
            "version": plan.version,
            "versions": [each.version for each in versions],
            "owner": plan.owner,
            "expires": plan.expires.isoformat() if plan.expires else None,
            "round_seconds": plan.round_seconds,
            "grace_seconds": plan.grace_seconds,
            "report_bytes": plan.report_bytes,
            "segments": {segment.name: list(segment.tags) for segment in plan.segments},
            "metrics": [_asked_for(metric) for metric in plan.metrics],
            "privacy": finite(card.to_dict()),
            "not_protected": list(NOT_PROTECTED),
            "warnings": [problem.to_dict() for problem in warnings],
            "hints": said,
            "rounds": rounds,
        },
        shown={
            "plan": plan,
            "asked": asked,
            "choices": {"rounds": round_choices(asked)},
            "versions": [each.version for each in versions],
            "round": words.duration(plan.round_seconds),
            "grace": words.duration(plan.grace_seconds),
            "metrics": [_metric(plan, metric, card) for metric in plan.metrics],
            "groups": [_group(plan, name, card) for name in card.groups],
            "card": _plain(card),
            "changes": _changes(card),
            "not_protected": NOT_PROTECTED,
            "warnings": warnings,
            "hints": said,
            "chart": _chart(rounds, plan) if rounds else "",
            "rounds": [_round(info) for info in rounds],
        },
        refresh=any(info["state"] != "sealed" for info in rounds),
    )


def finite(answer: Any) -> Any:
    """An answer with None for what has no bound: JSON has no infinity."""
    if isinstance(answer, float) and not math.isfinite(answer):
        return None
    if isinstance(answer, dict):
        return {key: finite(value) for key, value in answer.items()}
    return answer


def _asked_for(metric: Metric) -> dict[str, Any]:
    return {
        "name": metric.name,
        "kind": metric.kind,
        "unit": metric.unit,
        "description": metric.description,
        "max_value": float(metric.max_value),
        "mechanism": metric.mechanism.summary,
        "epsilon": float(metric.mechanism.epsilon),
        "flip": float(metric.flip.probability),
    }


def _metric(plan: Plan, metric: Metric, card: PrivacyCard) -> dict[str, Any]:
    losses = card.metrics[metric.name]
    return {
        "metric": metric,
        "path": f"/plans/{plan.name}/metrics/{metric.name}",
        "mechanism": metric.mechanism.summary,
        "range": f"0 to {words.rounded(float(metric.max_value), 6)} {words.plural(metric.unit)}".strip(),
        "epsilon": words.rounded(float(metric.mechanism.epsilon)),
        "flip": words.percent(float(metric.flip.probability)),
        "round": _loss(losses.round),
        "constant": _loss(losses.constant),
        "lifetime": _loss(losses.lifetime),
        "change": _loss(losses.change_per_round),
    }


def _group(plan: Plan, name: str, card: PrivacyCard) -> dict[str, Any]:
    group = next(each for each in plan.groups if each.name == name)
    losses = card.groups[name]
    return {
        "name": name,
        "metrics": ", ".join(group.metrics),
        "limit": words.rounded(float(group.max_total), 6),
        "round": _loss(losses.round),
        "constant": _loss(losses.constant),
    }


def _loss(loss: float) -> dict[str, str]:
    """A loss as ε, rounded up, and as the odds it may shift."""
    epsilon = "no bound" if math.isinf(loss) else words.number(math.ceil(loss * 1000 - 1e-6) / 1000, 3)
    return {"epsilon": epsilon, "odds": words.odds(loss)}


def _plain(card: PrivacyCard) -> list[dict[str, Any]]:
    return [
        {
            "name": "One round",
            "loss": _loss(card.round),
            "says": "All that the answers in one report tell. Whatever a device measured, and whatever "
            "somebody guessed about it, they shift the odds of the guess by no more than this factor.",
        },
        {
            "name": "A device that never changes",
            "loss": _loss(card.constant),
            "says": "All reports ever sent, for a device whose values stay the same. Answers are remembered, "
            "so sending them again and again does not add up beyond this.",
        },
        {
            "name": "A device's whole life",
            "loss": _loss(card.lifetime),
            "says": "All reports ever sent, between devices that change in the same rounds, however often. "
            "Not a bound between devices that change at different times.",
        },
    ]


def _changes(card: PrivacyCard) -> dict[str, Any]:
    worst = max(card.metrics.values(), key=lambda losses: losses.change_per_round)
    return {"loss": _loss(worst.change_per_round), "unbounded": math.isinf(worst.change_per_round)}


def _chart(rounds: Sequence[dict[str, Any]], plan: Plan) -> Markup:
    by_start: dict[int, list[dict[str, Any]]] = {}
    for info in rounds:
        by_start.setdefault(info["start"], []).append(info)
    bars = [
        charts.RoundBar(
            start=start,
            end=infos[0]["end"],
            reports=sum(info["reports"] for info in infos),
            open=any(info["state"] != "sealed" for info in infos),
            tip=f"{words.span(start, infos[0]['end'])}\n"
            + "\n".join(
                f"{info['reports']:,} reports, {info['state']}"
                + (f", version {info['version']}" if len(infos) > 1 else "")
                for info in infos
            ),
        )
        for start, infos in sorted(by_start.items())
    ]
    return charts.reports_per_round(bars, f"reports per round of {plan.name}")


def _round(info: dict[str, Any]) -> dict[str, str]:
    is_open = info["state"] != "sealed"
    return {
        "round": str(info["round"]),
        "version": str(info["version"]),
        "when": words.span(info["start"], info["end"]),
        "state": info["state"],
        "until": words.moment(info["closes"]) if is_open else "",
        "reports": f"{info['reports']:,}",
    }
