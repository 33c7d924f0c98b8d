"""Where each page is, and what is answered when there is none."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from reticent.collector import Health, log_fault
from reticent.dashboard.pages import assets, problem_page, render
from reticent.dashboard.params import NotHereError, Params
from reticent.dashboard.points import PointReader
from reticent.dashboard.views import View
from reticent.dashboard.views.health import health_page, newest_uneven
from reticent.dashboard.views.metric import metric_page
from reticent.dashboard.views.plans import overview, plan_page
from reticent.errors import ParameterError, StoreError
from reticent.plan import Plan
from reticent.results import Results

Endpoint = Callable[[Request], Response]


def handlers(results: Results, health: Callable[[], Health]) -> dict[str, Endpoint]:
    """
    The pages and their JSON twins by path, in the order in which paths are tried.

    They block, so the collector runs them on threads. Who may see them is decided there too, and it adds the
    headers that keep browsers safe; `request.state.logged_in`, if true, puts a log-out button on every page.
    """
    reader = PointReader(results)

    def plan_of(request: Request) -> Plan:
        name = request.path_params["plan"]
        try:
            return results.plan(name)
        except ParameterError:
            raise NotHereError("plan", name) from None

    def plan_view(request: Request) -> View:
        return plan_page(reader, plan_of(request), Params.parse(request.query_params))

    def metric_view(request: Request) -> View:
        plan, name = plan_of(request), request.path_params["metric"]
        if name not in plan.by_name:
            raise NotHereError("metric", name, f"/plans/{plan.name}")
        return metric_page(reader, plan, plan.by_name[name], Params.parse(request.query_params))

    return {
        **_pair("/", "/index.json", lambda request: overview(reader)),
        **_pair("/plans/{plan}/metrics/{metric}", "/plans/{plan}/metrics/{metric}.json", metric_view),
        **_pair("/plans/{plan}", "/plans/{plan}.json", plan_view),
        **_pair("/health", "/health.json", lambda request: health_page(health(), newest_uneven(results))),
    }


def _pair(path: str, twin: str, build: Callable[[Request], View]) -> dict[str, Endpoint]:
    """A page and its twin, made of the same view. The twin comes first: its path fits both."""

    def page(request: Request) -> Response:
        view, address = build(request), request.url.path
        query = f"?{request.url.query}" if request.url.query else ""
        body = render(
            view.template,
            title=view.title,
            path=address,
            twin=f"{address if address != '/' else '/index'}.json{query}",
            logged_in=logged_in(request),
            refresh=view.refresh,
            **view.shown,
        )
        return HTMLResponse(body)

    def json(request: Request) -> Response:
        return JSONResponse(build(request).twin)

    return {twin: _careful(json), path: _careful(page)}


def logged_in(request: Request) -> bool:
    """Whether the collector says that somebody is logged in."""
    return bool(getattr(request.state, "logged_in", False))


def _careful(endpoint: Endpoint) -> Endpoint:
    """An endpoint that turns every error into words, and never shows what is inside."""

    @wraps(endpoint)
    def answered(request: Request) -> Response:
        try:
            return endpoint(request)
        except NotHereError as error:
            return _problem(request, 404, f"No such {error.what}", str(error), error.instead)
        except ParameterError as error:
            message = f"{error.name}: expected {error.expected}."
            return _problem(request, 400, "That cannot be shown", message, request.url.path)
        except StoreError as error:
            log_fault("store-failed", error)
            message = "The store cannot be read just now. What was acknowledged is not lost; try again soon."
            return _problem(request, 503, "The store does not answer", message, "/")
        except Exception as error:
            log_fault("internal-error", error)
            message = "Something went wrong while this page was made. The collector's log says where."
            return _problem(request, 500, "This page failed", message, "/")

    return answered


def _problem(request: Request, status: int, title: str, message: str, instead: str) -> Response:
    """A page, or a problem document (RFC 9457) where a twin was asked for."""
    if not request.url.path.endswith(".json"):
        body = problem_page(title, message, instead, logged_in(request))
        return HTMLResponse(body, status)
    document = {"type": "about:blank", "title": title, "status": status, "detail": message}
    return JSONResponse(document, status, media_type="application/problem+json")


def static(request: Request) -> Response:
    """The style, the script or the icon."""
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
