"""
Public results: pages, data and charts of chosen plans below `/public`, without a key.

Only sealed figures of the whole fleet are shown, through `Results` like all figures, so nothing here is about fewer
than `min_reports` reports. An answer depends on its path alone and is cached for a minute, here and downstream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from reticent.plan import Metric, Plan
from reticent_collector.counts import ABOUT
from reticent_collector.dashboard import charts, labels
from reticent_collector.dashboard.pages import json_of, render
from reticent_collector.dashboard.points import Point, PointReader, card_of, comparable
from reticent_collector.dashboard.views import (
    TRENDS,
    edge_unit,
    headline,
    mark,
    metric_facts,
    plan_facts,
    unit_of,
)
from reticent_collector.dashboard.views.plans import claims, not_protected
from reticent_collector.dashboard.views.shares import bars
from reticent_collector.estimates import HistogramEstimate
from reticent_collector.estimates.table import csv_text
from reticent_collector.figures import Unit
from reticent_collector.results import Estimates, Selection, usual_every

PERIODS = 60  # the latest periods that are shown
CONFIDENCE = 95
SECONDS = 60  # for which an answer stands
REFRESH_SECONDS = 120  # after which a page that stays open looks again
EMBED_POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors *"
IMAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'"

Endpoint = Callable[[Request], Response]


@dataclass(frozen=True, slots=True)
class Shown:
    """One metric as the public sees it: its sealed points, latest first, and their chart."""

    plan: Plan
    metric: Metric
    points: list[Point]
    what: str  # what the chart shows, in words
    chart: Markup

    @property
    def path(self) -> str:
        """Its page; data, chart and frame have addresses below it."""
        return f"/public/{self.plan.name}/{self.metric.name}"

    @property
    def small(self) -> Markup:
        """The chart in its narrow size alone, for a card."""
        return charts.narrow(self.chart)

    @property
    def headline(self) -> dict[str, Any] | None:
        """The latest figure; None where there is none yet."""
        return headline(self.points[0], unit_of(self.points)) if self.points else None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The numbers behind the chart of a mean, or the medians of a histogram."""
        unit = unit_of(self.points)
        return [headline(point, unit) for point in self.points]


def public_handlers(reader: PointReader, public: Collection[str]) -> dict[str, Endpoint]:
    """The public endpoints of these plans, by path."""
    results = reader.results

    def plan_of(request: Request) -> Plan:
        return reader.plan(request.path_params["plan"], public, "/public")

    def metric_of(request: Request) -> tuple[Plan, Metric]:
        plan = plan_of(request)
        return reader.metric(plan, request.path_params["metric"], f"/public/{plan.name}")

    def finished(plan: Plan, metric: Metric) -> Estimates:
        found = results.estimates(_latest(plan, metric))
        rows = [row for row in found.rows if row.state == "sealed"]
        return Estimates(row for row in rows if row.metric.kind == metric.kind)

    def index(request: Request) -> Response:
        plans = [plan for name, plan in sorted(results.plans().items()) if name in public]
        rows = [(plan, labels.duration(plan.round_seconds)) for plan in plans]
        return _page(request, "public_index.html", "Public results", plans=rows)

    def plan_page(request: Request) -> Response:
        plan = plan_of(request)
        return _page(
            request,
            "public_plan.html",
            plan.name,
            plan=plan,
            round=labels.duration(plan.round_seconds),
            window=labels.duration(plan.answers.window * plan.round_seconds),
            metrics=[shown(reader, plan, metric, has_tips=False) for metric in plan.metrics],
            card=claims(card_of(plan)),
            not_protected=not_protected(plan),
            data=f"/public/{plan.name}.json",
            refresh=REFRESH_SECONDS,
        )

    def plan_data(request: Request) -> Response:
        plan = plan_of(request)
        metrics = []
        for metric in plan.metrics:
            last = next(iter(shown(reader, plan, metric).points), None)
            metrics.append(
                {
                    **metric_facts(metric),
                    "latest": last.to_dict() if last else None,
                    "estimates": f"/public/{plan.name}/{metric.name}.json",
                }
            )
        document = {
            "about": ABOUT,
            **plan_facts(plan),
            "min_reports": plan.min_reports,
            "plan": f"/public/{plan.name}.toml",
            "privacy": card_of(plan).to_dict(),
            "not_protected": list(not_protected(plan)),
            "metrics": metrics,
        }
        return _data(document)

    def plan_text(request: Request) -> Response:
        return PlainTextResponse(plan_of(request).text, media_type="application/toml", headers=_FOR_EVERYBODY)

    def metric_page(request: Request) -> Response:
        one = shown(reader, *metric_of(request))
        title = f"{one.metric.name} · {one.plan.name}"
        return _page(
            request,
            "public_metric.html",
            title,
            one=one,
            data=f"{one.path}.json",
            refresh=REFRESH_SECONDS,
        )

    def metric_data(request: Request) -> Response:
        return _data(finished(*metric_of(request)).to_dict())

    def metric_table(request: Request) -> Response:
        text = csv_text(finished(*metric_of(request)).rows)
        return PlainTextResponse(text, media_type="text/csv", headers=_FOR_EVERYBODY)

    def chart(request: Request) -> Response:
        image = picture(shown(reader, *metric_of(request)))
        headers = {
            **_FOR_EVERYBODY,
            "Content-Security-Policy": IMAGE_POLICY,
            "Cross-Origin-Resource-Policy": "cross-origin",
        }
        return Response(image, media_type="image/svg+xml", headers=headers)

    def embed(request: Request) -> Response:
        one = shown(reader, *metric_of(request))
        page = render("public_embed.html", title=f"{one.metric.name} · {one.plan.name}", one=one)
        return HTMLResponse(page, headers={"Content-Security-Policy": EMBED_POLICY})

    of_plan, of_metric = "/public/{plan}", "/public/{plan}/{metric}"
    endpoints = {  # a path with an ending comes before the one that would fit it too
        "/public": index,
        f"{of_metric}/chart.svg": chart,
        f"{of_metric}/embed": embed,
        f"{of_metric}.json": metric_data,
        f"{of_metric}.csv": metric_table,
        of_metric: metric_page,
        f"{of_plan}.json": plan_data,
        f"{of_plan}.toml": plan_text,
        of_plan: plan_page,
    }
    kept: dict[str, tuple[float, Response]] = {}  # of paths that are there, so no more than metrics have
    return {path: _kept(endpoint, kept) for path, endpoint in endpoints.items()} if public else {}


_FOR_EVERYBODY = {"Access-Control-Allow-Origin": "*"}
"""A page of any other site may read it: there is nothing of the reader's own in it."""


def _page(request: Request, template: str, title: str, **more: Any) -> Response:
    return HTMLResponse(render(template, title=title, path=request.scope["path"], **more))


def _data(document: Any) -> Response:
    return Response(json_of(document), media_type="application/json", headers=_FOR_EVERYBODY)


def _kept(endpoint: Endpoint, kept: dict[str, tuple[float, Response]]) -> Endpoint:
    """An endpoint whose good answers stand for a minute, by path, also in caches and browsers."""

    def answer(request: Request) -> Response:
        # Not `request.url`: an older Starlette makes that of the Host header too, which any client can set.
        path, now = request.scope["path"], time.monotonic()
        until, response = kept.get(path) or (0.0, None)
        if response is None or until <= now:
            response = endpoint(request)
            response.headers["Cache-Control"] = f"public, max-age={SECONDS}"
            response.headers["ETag"] = f'"{sha256(response.body).hexdigest()[:32]}"'
            kept[path] = now + SECONDS, response
        if response.headers["ETag"] in request.headers.get("if-none-match", ""):
            same = {name: response.headers[name] for name in ("Cache-Control", "ETag")}
            return Response(status_code=304, headers=same)
        return response

    return answer


def _latest(plan: Plan, metric: Metric) -> Selection:
    """The periods that are shown, and some more, since the newest are not sealed."""
    return Selection(
        plan.name, metric.name, last=PERIODS + 4, confidence=CONFIDENCE / 100, every=usual_every(plan)
    )


def shown(reader: PointReader, plan: Plan, metric: Metric, has_tips: bool = True) -> Shown:
    """A metric with its sealed points and their chart: means over time, the latest histogram."""
    period = usual_every(plan)
    points = reader.points(plan, _latest(plan, metric))
    points = [point for point in points if not point.provisional]
    same = comparable(points, points[0] if points else None)[:PERIODS]
    if not same:
        return Shown(plan, metric, [], "", Markup())
    if metric.mechanism.kind == "mean":
        unit = unit_of(same)
        what = f"{TRENDS[metric.kind]} of {metric.name} per {period}, with its {CONFIDENCE} % interval"
        marks = [mark(point, unit, tip=has_tips) for point in reversed(same)]
        return Shown(plan, metric, same, what, charts.series([charts.Line(marks)], what, unit.name))
    histogram = same[0].result.estimate
    what = (
        f"share of devices per {'label' if metric.is_named else 'bucket'} of {metric.name}, latest {period}, "
        f"with simultaneous {CONFIDENCE} % intervals"
    )
    if not isinstance(histogram, HistogramEstimate):
        return Shown(plan, metric, same, "", Markup())
    unit = Unit() if metric.is_named else edge_unit(metric)
    edges = [edge / unit.size for edge in histogram.edges]
    chart = charts.histogram(edges, [charts.Bars(bars(same[0].result))], what, unit.name)
    return Shown(plan, metric, same, what, chart)


@cache
def _style() -> str:
    return (files("reticent_collector.dashboard") / "static" / "chart.css").read_text(encoding="utf-8")


def picture(one: Shown) -> str:
    """The chart as an image file, with its style, its title, and whom it is about."""
    wide, end, _ = str(one.chart).partition("</svg>")
    size = 'width="960" height="420" viewBox="0 0 960 420"'
    figure = one.headline
    title, what = f"{one.metric.name}: no result yet", one.what
    if figure:
        title = (
            f"{one.metric.name}: {' '.join(filter(None, (figure['lead'], figure['value'], figure['unit'])))}"
        )
        what = f"{one.what}; latest: {figure['when']}"
    drawn = wide.replace("<svg ", '<svg x="0" y="52" width="960" height="330" ', 1) + end
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(one.what or title)}">'
        f'<style>{_style()}</style><rect class="ground" width="960" height="420"/>'
        f'<text class="title" x="14" y="26">{escape(title)}</text>'
        f'<text class="about" x="14" y="45">{escape(what)}</text>'
        f'{drawn}<text class="about" x="14" y="408">{escape(ABOUT)}</text></svg>'
    )
