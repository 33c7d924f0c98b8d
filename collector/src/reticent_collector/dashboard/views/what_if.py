"""A plan with other parameters: the privacy loss and the expected precision, computed exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from starlette.datastructures import QueryParams

from reticent.errors import ParameterError, PlanError
from reticent.losses import printed
from reticent.mechanisms import exact
from reticent.plan import Plan
from reticent.plan.parse import content_of, fields_of
from reticent_collector.dashboard import labels
from reticent_collector.dashboard.params import chosen
from reticent_collector.dashboard.views import View
from reticent_collector.estimates import expected_average_half_width
from reticent_collector.plans import diff
from reticent_collector.privacy import CLAIMS
from reticent_collector.privacy.card import duration, privacy_card

CONFIDENCE = 0.95
MOST_DEVICES = 10**9
MOST_WINDOW = 10_000
USUAL_FLIP = "0.2"
DAY = 86_400


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices on the page: the parameters of one metric, the fleet, and how the whole plan is answered."""

    metric: str
    epsilon: Fraction
    flip: Fraction
    max_value: Fraction
    devices: int
    sampled: bool
    window: int  # rounds of a window

    @classmethod
    def parse(cls, plan: Plan, query: QueryParams, fleet: int) -> Choices:
        """The choices in an address, by default those of the plan; raises `ParameterError`."""
        name = query.get("metric") or plan.metrics[0].name
        if name not in plan.by_name:
            raise ParameterError("metric", f"one of {', '.join(plan.by_name)}", name[:64])
        metric = plan.by_name[name]
        answers = query.get("answers") or ("sampled" if plan.answers.sampled else "remembered")
        if answers not in ("remembered", "sampled"):
            raise ParameterError("answers", "remembered or sampled", answers[:64])
        usual_window = plan.answers.window or max(1, 7 * DAY // plan.round_seconds)
        flip = USUAL_FLIP if plan.answers.sampled else str(metric.flip.probability)
        return cls(
            metric=name,
            epsilon=exact(query.get("epsilon") or metric.mechanism.epsilon, "epsilon"),
            flip=exact(query.get("flip") or flip, "flip"),
            max_value=exact(query.get("range") or metric.max_value, "range"),
            devices=chosen(query).whole("devices", MOST_DEVICES) or fleet,
            sampled=answers == "sampled",
            window=chosen(query).whole("window", MOST_WINDOW) or usual_window,
        )

    def applied(self, plan: Plan) -> Plan:
        """The plan with these choices; raises `ParameterError` where there is no such plan."""
        content = content_of(plan.text)
        tables, table = content["metrics"], content["metrics"][self.metric]
        table["epsilon"] = str(self.epsilon)
        asked = {"metrics": plan.answers.metrics} if plan.answers.metrics else {}
        if self.sampled:
            for other in tables.values():
                other.pop("flip", None)  # a sampled answer is fresh: there is nothing for a flip to hide
            length = f"{self.window * plan.round_seconds}s"
            content["answers"] = {"kind": "sampled", "window": length, **asked}
        else:
            content["answers"] = asked
            for other in tables.values() if plan.answers.sampled else (table,):
                other["flip"] = str(self.flip)
                if other.get("mechanism", "subset") == "subset":  # for sampled answers alone
                    other.pop("mechanism", None)
                    other.pop("size", None)
        scale = self.max_value / Fraction(plan.by_name[self.metric].max_value)
        for key in {"max_value", "step", "grid", "edges"} & table.keys() if scale != 1 else ():
            value = table[key]
            many = isinstance(value, list)
            scaled = [str(exact(one) * scale) for one in (value if many else [value])]
            table[key] = scaled if many else scaled[0]
        try:
            return Plan(**fields_of(content))
        except PlanError as error:
            problem = error.problems[0]
            place = problem.where.rpartition(".")[2]
            name = "range" if place in ("max_value", "step", "grid", "edges") else place
            raise ParameterError(name, problem.message.removeprefix("expected ").rstrip("."), "") from None


def what_if(plan: Plan, query: QueryParams, fleet: int) -> dict[str, Any]:
    """The panel of sliders; `fleet` is the initial number of devices."""
    choices = Choices.parse(plan, query, fleet)
    other = choices.applied(plan)
    metric = plan.by_name[choices.metric]
    before, after = (_figures(each, choices) for each in (plan, other))
    added = 0.0 if other.answers.sampled or plan.answers.sampled else diff(plan, other).lifetime_added
    names = dict.fromkeys([*before["loss"], *after["loss"]])
    spans = dict.fromkeys([*before["half_width"], *after["half_width"]])
    unit = metric.unit if metric.kind in ("mean", "split") else "%"
    rows = [
        {"name": CLAIMS[name].title + (", 1 year" if name == "any_history" else ""),
         "before": _loss(before["loss"], name), "after": _loss(after["loss"], name),
         "says": CLAIMS[name].scope("1 year")}
        for name in names
    ]  # fmt: skip
    widths = [
        {"name": f"one {name}", "before": _width(before, name, unit), "after": _width(after, name, unit)}
        for name in spans
    ]
    return {
        "choices": choices,
        "metrics": list(plan.by_name),
        "has_range": metric.kind in ("mean", "histogram"),
        "unit": labels.plural(metric.unit),
        "values": {
            "epsilon": _number(choices.epsilon),
            "flip": _number(choices.flip),
            "range": _number(choices.max_value),
            "devices": str(choices.devices),
            "window": str(choices.window),
        },
        "top": float(metric.max_value),
        "most_window": max(2, 90 * DAY // plan.round_seconds),
        "window_length": labels.duration(choices.window * plan.round_seconds),
        "round_length": labels.duration(plan.round_seconds),
        "losses": rows,
        "widths": widths,
        "fleet": f"{choices.devices:,}",
        "few": after["reports"] < plan.min_reports,
        "reports": f"{after['reports']:,}",
        "min_reports": f"{plan.min_reports:,}",
        "summary": f"{rows[-1]['name']}: ε {rows[-1]['after']}. " + (
            f"{widths[0]['name'].capitalize()}: {widths[0]['after']}."
        ),
        "section": _section(plan, other),
        "added": printed(added) if added else "",
    }  # fmt: skip


def what_if_page(plan: Plan, query: QueryParams, fleet: int) -> View:
    """The panel alone: what a script loads while a slider moves."""
    return View(
        template="what_if.html",
        title=f"What if · {plan.name}",
        shown={"plan": plan, "what_if": what_if(plan, query, fleet)},
    )


def _figures(plan: Plan, choices: Choices) -> dict[str, Any]:
    """The privacy loss of a plan, as on its card, and the expected half-widths of the metric."""
    card, metric = privacy_card(plan), plan.by_name[choices.metric]
    answering = max(1, choices.devices * plan.asked // len(plan.metrics))
    spans = {"round": 1, "day": DAY // plan.round_seconds, "week": 7 * DAY // plan.round_seconds}
    if plan.answers.sampled:
        spans["window"] = plan.answers.window
    widths = {
        name: expected_average_half_width(metric, answering, rounds, CONFIDENCE, plan.answers)
        for name, rounds in spans.items()
        if rounds > (name != "round")
    }
    return {
        "loss": {name: getattr(card, name) for name in card.columns},
        "half_width": widths,
        "reports": choices.devices // (plan.answers.window or 1),
    }


def _loss(losses: Mapping[str, float], name: str) -> str:
    return printed(losses[name]) if name in losses else "no such claim"


def _width(figures: Mapping[str, Any], name: str, unit: str) -> str:
    if name not in figures["half_width"]:
        return ""
    half = figures["half_width"][name]
    return f"± {printed(100 * half if unit == '%' else half, 3)} {labels.plural(unit)}".strip()


def _number(number: Fraction) -> str:
    """A number as it is typed; not every fraction is a decimal."""
    return f"{float(number):.12g}"


def _section(plan: Plan, other: Plan) -> str:
    """The lines of plan.toml that differ, except lists of edges."""
    if other.fingerprint == plan.fingerprint:
        return ""
    lines = ["[plan]", f"version = {plan.version + 1}"]
    if other.answers != plan.answers:
        lines += ["", "[answers]"]
        if other.answers.sampled:
            lines += ['kind = "sampled"', f'window = "{duration(other.answers.window * plan.round_seconds)}"']
        else:
            lines += ['kind = "remembered"']
        lines += [f"metrics = {other.answers.metrics}"] if other.answers.metrics else []
    for before, after in zip(plan.metrics, other.metrics, strict=True):
        changes = {
            "epsilon": (before.mechanism.epsilon, after.mechanism.epsilon),
            "max_value": (before.max_value, after.max_value),
            "flip": (before.flip.probability, after.flip.probability),
        }
        differ = [f"{key} = {_number(Fraction(new))}" for key, (old, new) in changes.items() if old != new]
        lines += ["", f"[metrics.{before.name}]", *differ] if differ else []
    return "\n".join(lines)
