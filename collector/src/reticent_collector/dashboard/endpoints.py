"""The pages by path, and the answers to failed requests."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import wraps

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from reticent.errors import ParameterError, StoreError
from reticent.plan import Plan
from reticent_collector.dashboard.charts import alone
from reticent_collector.dashboard.pages import assets, problem_page, render
from reticent_collector.dashboard.params import NotHereError, Params
from reticent_collector.dashboard.points import PointReader
from reticent_collector.dashboard.public import public_handlers
from reticent_collector.dashboard.views import View
from reticent_collector.dashboard.views.health import health_page
from reticent_collector.dashboard.views.metric import metric_page
from reticent_collector.dashboard.views.overview import overview
from reticent_collector.dashboard.views.plans import FLEET, plan_page
from reticent_collector.dashboard.views.what_if import what_if_page
from reticent_collector.estimates.table import csv_text
from reticent_collector.http import Health, log_fault
from reticent_collector.results import Results, usual_every

MOST_NUMBERS = 100_000  # of one table

Endpoint = Callable[[Request], Response]


def handlers(
    results: Results, health: Callable[[], Health], public: Collection[str] = ()
) -> dict[str, Endpoint]:
    """
    The pages and their files by path, in matching order; `public` names public plans.

    They block, so the collector runs them on threads. The collector checks who may see them and adds the security
    headers; `request.state.logged_in`, if true, puts a log-out button on every page.
    """
    reader = PointReader(results)

    def plan_of(request: Request) -> Plan:
        return reader.plan(request.path_params["plan"])

    def plan_view(request: Request) -> View:
        return plan_page(reader, plan_of(request), Params.parse(request.query_params), request.query_params)

    def metric_view(request: Request) -> View:
        plan = plan_of(request)
        found = reader.metric(plan, request.path_params["metric"], f"/plans/{plan.name}")
        return metric_page(reader, *found, Params.parse(request.query_params))

    def table(request: Request) -> Response:
        plan = plan_of(request)
        params = Params.parse(request.query_params)
        version, metric = reader.metric(plan, request.path_params["metric"], f"/plans/{plan.name}")
        every = params.every or usual_every(version)
        selection = replace(params.selection(plan.name, metric.name, every), most=MOST_NUMBERS)
        text = csv_text(results.estimates(selection).rows)
        return _file(request, text, "text/csv; charset=utf-8")

    def picture(request: Request) -> Response:
        pictures = metric_view(request).pictures
        params = Params.parse(request.query_params)
        if params.chart not in pictures:
            raise NotHereError("chart", params.chart, request.url.path.removesuffix(".svg"))
        drawn = pictures[params.chart]
        return _file(request, alone(drawn.chart, drawn.keys, drawn.title), "image/svg+xml")

    metric_path = "/plans/{plan}/metrics/{metric}"
    return {
        "/": page_of(lambda request: overview(reader, Params.parse(request.query_params))),
        f"{metric_path}.csv": _careful(table),
        f"{metric_path}.svg": _careful(picture),
        metric_path: page_of(metric_view),
        "/plans/{plan}/what-if": page_of(
            lambda request: what_if_page(plan_of(request), request.query_params, FLEET)
        ),
        "/plans/{plan}": page_of(plan_view),
        "/health": page_of(lambda request: health_page(health(), results)),
        **{path: _careful(endpoint) for path, endpoint in public_handlers(reader, public).items()},
    }


def page_of(build: Callable[[Request], View]) -> Endpoint:
    """The endpoint of a page."""

    def page(request: Request) -> Response:
        view = build(request)
        body = render(
            view.template,
            view.package,
            title=view.title,
            path=request.url.path,
            data=view.data,
            logged_in=logged_in(request),
            refresh=view.refresh,
            **view.shown,
        )
        return HTMLResponse(body)

    return _careful(page)


def _file(request: Request, content: str, media_type: str) -> Response:
    """A download, named like its address."""
    name = request.url.path.rpartition("/")[2]
    return Response(
        content, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )


def logged_in(request: Request) -> bool:
    """Whether the collector says that someone is logged in."""
    return bool(getattr(request.state, "logged_in", False))


def _careful(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose errors become problem pages, without internals."""

    @wraps(endpoint)
    def answered(request: Request) -> Response:
        try:
            return endpoint(request)
        except NotHereError as error:
            return _problem(request, 404, f"There is no such {error.what}", str(error), error.instead)
        except ParameterError as error:
            message = f"{error.name}: expected {error.expected}."
            return _problem(request, 400, "Invalid request", message, request.url.path)
        except StoreError as error:
            log_fault("store-failed", error)
            message = (
                "The store cannot be read at the moment. No acknowledged report is lost. Try again soon."
            )
            return _problem(request, 503, "The store does not answer", message)
        except Exception as error:
            log_fault("internal-error", error)
            message = "An internal error occurred. The collector's log says where."
            return _problem(request, 500, "This page failed", message)

    return answered


def _problem(request: Request, status: int, title: str, message: str, instead: str = "") -> Response:
    """A page, or a problem document (RFC 9457) where data was asked for."""
    path = request.url.path
    if not path.endswith((".json", ".csv", ".svg")):
        where = {"path": path, "title": title, "instead": instead}
        return HTMLResponse(problem_page(status, message, logged_in=logged_in(request), **where), status)
    document = {"type": "about:blank", "title": title, "status": status, "detail": message}
    return JSONResponse(document, status, media_type="application/problem+json")


def static(request: Request) -> Response:
    """A static file."""
    asset = assets().get(request.path_params["name"])
    if asset is None:
        return Response(status_code=404)
    headers = {
        "Cache-Control": "public, max-age=31536000, immutable",
        "ETag": asset.etag,
        "X-Content-Type-Options": "nosniff",
    }
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)
