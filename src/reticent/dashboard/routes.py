"""Where each page is, and what is answered when there is none."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from reticent.collector import Health, log_fault
from reticent.dashboard.asking import Asked, NotHereError
from reticent.dashboard.figures import Figures
from reticent.dashboard.pages import SECURITY_HEADERS, assets, problem_page, render
from reticent.dashboard.views.health import health_page, newest_uneven
from reticent.dashboard.views.histogram import histogram
from reticent.dashboard.views.mean import mean
from reticent.dashboard.views.overview import overview
from reticent.dashboard.views.plan import plan_page
from reticent.dashboard.views.view import View
from reticent.errors import ParameterError, StoreError
from reticent.results import Results

Build = Callable[[Request], View]


def routes(reader: Results, health: Callable[[], Health]) -> list[BaseRoute]:
    """
    The pages, their JSON twins, and the static files.

    Endpoints are plain functions, which Starlette runs in its thread pool: reading may block. Who may see
    them is decided outside; `request.state.logged_in`, if true, puts a log-out button on every page.
    """
    figures = Figures(reader)

    def of_plan(request: Request) -> View:
        plan = figures.plan(request.path_params["plan"])
        return plan_page(figures, plan, Asked.of(request.query_params))

    def of_metric(request: Request) -> View:
        plan = figures.plan(request.path_params["plan"])
        name = request.path_params["metric"]
        if name not in plan.by_name:
            raise NotHereError("metric", name, f"/plans/{plan.name}")
        metric = plan.by_name[name]
        page = mean if metric.kind == "mean" else histogram
        return page(figures, plan, metric, Asked.of(request.query_params))

    return [
        *_pair("/", "/index.json", lambda request: overview(figures)),
        *_pair("/plans/{plan}/metrics/{metric}", "/plans/{plan}/metrics/{metric}.json", of_metric),
        *_pair("/plans/{plan}", "/plans/{plan}.json", of_plan),
        *_pair("/health", "/health.json", lambda request: health_page(health(), newest_uneven(figures))),
        Route("/static/{name}", _static),
    ]


def _pair(path: str, twin: str, build: Build) -> list[BaseRoute]:
    """A page and its twin, made of the same view."""

    def page(request: Request) -> Response:
        view = build(request)
        address = request.url.path
        query = f"?{request.url.query}" if request.url.query else ""
        twin_address = f"{address if address != '/' else '/index'}.json{query}"
        body = render(view, address, twin_address, logged_in(request))
        return HTMLResponse(body, headers=SECURITY_HEADERS)

    def json(request: Request) -> Response:
        return JSONResponse(build(request).twin, headers=SECURITY_HEADERS)

    return [
        Route(twin, _careful(json, _json_problem), methods=["GET"]),
        Route(path, _careful(page, _page_problem), methods=["GET"]),
    ]


def logged_in(request: Request) -> bool:
    """Whether the collector says that somebody is logged in."""
    return bool(getattr(request.state, "logged_in", False))


Problem = Callable[[Request, int, str, str, str], Response]


def _careful(endpoint: Callable[[Request], Response], problem: Problem) -> Callable[[Request], Response]:
    """An endpoint that turns every error into words, and never shows what is inside."""

    @wraps(endpoint)
    def answered(request: Request) -> Response:
        try:
            return endpoint(request)
        except NotHereError as error:
            return problem(request, 404, f"No such {error.what}", str(error), error.instead)
        except ParameterError as error:
            said = f"{error.name}: expected {error.expected}."
            return problem(request, 400, "That cannot be shown", said, request.url.path)
        except StoreError as error:
            log_fault("store-failed", error)
            said = "The store cannot be read just now. What was acknowledged is not lost; try again soon."
            return problem(request, 503, "The store does not answer", said, "/")
        except Exception as error:
            log_fault("internal-error", error)
            said = "Something went wrong while this page was made. The collector's log says where."
            return problem(request, 500, "This page failed", said, "/")

    return answered


def _page_problem(request: Request, status: int, title: str, message: str, instead: str) -> Response:
    body = problem_page(title, message, instead.removesuffix(".json"), logged_in(request))
    return HTMLResponse(body, status, headers=SECURITY_HEADERS)


def _json_problem(request: Request, status: int, title: str, message: str, instead: str) -> Response:
    """A problem document (RFC 9457)."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": message}
    return JSONResponse(body, status, headers=SECURITY_HEADERS, media_type="application/problem+json")


def _static(request: Request) -> Response:
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
