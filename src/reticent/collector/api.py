"""Everything but the ingest path: plans, estimates, rounds, health, metrics, and what leads to pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from reticent.collector.access import Access
from reticent.collector.health import Health, Readiness, render_metrics
from reticent.collector.log import log_fault
from reticent.collector.login import Login, Pages
from reticent.collector.openapi import openapi_document
from reticent.collector.problems import ProblemError
from reticent.collector.query import Query
from reticent.errors import MissingExtraError, ParameterError, StoreError
from reticent.estimates.table import arrow_bytes, csv_text
from reticent.results import Result, Results

OPEN_PATHS = ("/healthz", "/readyz", "/login", "/logout")
ASKED_OF_ESTIMATES = {"plan", "metric", "round", "last", "segment", "by", "confidence", "format"}
USUAL_ROUNDS = 100
"""How many of the latest rounds are answered when nothing is said of rounds."""

SECURITY_HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
"""What an answer has besides its own; one that may be kept, such as a static file, says so itself."""

CODES = {404: "not_found", 405: "method_not_allowed"}


class Api:
    """The slower paths, behind a reader's key."""

    def __init__(
        self,
        reader: Results,
        ping: Callable[[], None],
        access: Access,
        health: Callable[[], Health],
        secure_cookies: bool,
        pages: Pages | None,
    ) -> None:
        self._reader = reader
        self._access = access
        self._health = health
        self._pages = pages
        self._ready = Readiness(ping)
        routes: list[BaseRoute] = [
            Route("/v1/plans", self._plans),
            Route("/v1/plans/{name}", self._plan),
            Route("/v1/estimates", self._estimates),
            Route("/v1/rounds", self._rounds),
            Route("/metrics", self._metrics),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/openapi.json", self._openapi),
        ]
        if pages is not None:
            routes += [*Login(access, pages, secure_cookies).routes(), *pages.routes(reader, health)]
        handlers: Any = {
            ProblemError: _problem,
            ParameterError: _bad_parameter,
            StoreError: _unavailable,
            HTTPException: _http_error,
            ClientDisconnect: _gone,
            Exception: _internal,
        }
        self._app = Starlette(routes=routes, exception_handlers=handlers)
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key, answer, and add the headers that keep browsers safe."""
        started = False

        async def send_safely(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                names = {name.lower() for name, _ in message["headers"]}
                missing = [header for header in SECURITY_HEADERS if header[0] not in names]
                message["headers"] = [*message["headers"], *missing]
            await send(message)

        path = scope["path"]
        try:
            if path == "/v1/reports":
                raise HTTPException(405, headers={"allow": "POST"})
            if path not in OPEN_PATHS and not path.startswith("/static/"):
                key = self._access.require(scope["headers"], ("reader", "admin"))
                scope.setdefault("state", {})["logged_in"] = key is not None
            await self._app(scope, receive, send_safely)
        except HTTPException as error:
            await _http_error(None, error)(scope, receive, send_safely)
        except ProblemError as problem:
            response = _problem(None, problem)
            if problem.status == 401 and self._pages and _wants_html(scope):
                query = scope.get("query_string", b"").decode("ascii", "replace")
                target = quote(f"{path}?{query}" if query else path)
                response = RedirectResponse(f"/login?next={target}", status_code=303)
            await response(scope, receive, send_safely)
        except Exception as error:  # what went wrong may quote the request: it is named, never printed
            if not started:
                await _internal(None, error)(scope, receive, send_safely)

    # Data

    async def _plans(self, request: Request) -> Response:
        plans = await run_in_threadpool(self._reader.plans)
        return _json({"plans": [_described(plan) for plan in plans.values()]})

    async def _plan(self, request: Request) -> Response:
        name = request.path_params["name"]
        found = (await run_in_threadpool(self._reader.plans)).get(name)
        if found is None:
            raise ProblemError(404, "unknown_plan")
        wants_json = "application/json" in request.headers.get("accept", "")
        body = msgspec.json.encode(_described(found)) if wants_json else found.text.encode()
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": "no-cache", "vary": "accept"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(
            body, media_type="application/json" if wants_json else "application/toml", headers=headers
        )

    async def _estimates(self, request: Request) -> Response:
        asked = Query(request.query_params.multi_items(), ASKED_OF_ESTIMATES)
        form = asked.format(request.headers.get("accept", ""))
        found = await run_in_threadpool(self._find, asked)
        if form == "csv":
            return PlainTextResponse(csv_text(found), media_type="text/csv")
        if form == "arrow":
            try:
                body = await run_in_threadpool(arrow_bytes, found)
            except MissingExtraError as error:
                raise ProblemError(406, "not_acceptable", str(error)) from None
            return Response(body, media_type="application/vnd.apache.arrow.stream")
        return _json({"estimates": [each.to_dict() for each in found]})

    def _find(self, asked: Query) -> list[Result]:
        plan, rounds = asked.one("plan"), asked.rounds()
        if plan is None:
            raise ParameterError("plan", "the name of a plan", "nothing")
        if plan not in self._reader.plans():
            raise ProblemError(404, "unknown_plan")
        return self._reader.estimates(
            plan,
            metric=asked.one("metric"),
            rounds=rounds,
            last=asked.last() or (None if rounds else USUAL_ROUNDS),
            segment=asked.segment(),
            by=asked.one("by"),
            confidence=asked.confidence(),
        )

    async def _rounds(self, request: Request) -> Response:
        asked = Query(request.query_params.multi_items(), {"plan", "last"})
        plan, last = asked.one("plan"), asked.last() or USUAL_ROUNDS
        if plan is not None and plan not in await run_in_threadpool(self._reader.plans):
            raise ProblemError(404, "unknown_plan")
        return _json({"rounds": await run_in_threadpool(self._reader.rounds, plan, last)})

    # Health

    async def _metrics(self, request: Request) -> Response:
        body, kind = await run_in_threadpool(
            render_metrics, self._reader, self._health(), request.headers.get("accept", "")
        )
        return Response(body, headers={"content-type": kind})

    async def _healthz(self, request: Request) -> Response:
        return _json({"status": "ok"})

    async def _readyz(self, request: Request) -> Response:
        if not await self._ready():
            raise ProblemError(503, "unavailable", retry_after=5)
        return _json({"status": "ready"})

    async def _openapi(self, request: Request) -> Response:
        return Response(_document(), media_type="application/json")


def _described(plan: Any) -> dict[str, Any]:
    return {
        "name": plan.name,
        "version": plan.version,
        "round_seconds": plan.round_seconds,
        "grace_seconds": plan.grace_seconds,
        "owner": plan.owner,
        "expires": plan.expires.isoformat() if plan.expires else None,
        "metrics": [
            {"name": metric.name, "kind": metric.kind, "unit": metric.unit, "description": metric.description}
            for metric in plan.metrics
        ],
        "segments": {segment.name: list(segment.tags) for segment in plan.segments},
        "toml": plan.text,
    }


@cache
def _document() -> bytes:
    return msgspec.json.encode(openapi_document())


def _json(answer: object) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _problem(request: Any, problem: Exception) -> Response:
    assert isinstance(problem, ProblemError)  # noqa: S101
    headers = {name.decode(): value.decode() for name, value in problem.headers}
    return Response(problem.body, status_code=problem.status, headers=headers)


def _bad_parameter(request: Any, error: Exception) -> Response:
    return _problem(request, ProblemError(400, "bad_request", str(error)))


def _unavailable(request: Any, error: Exception) -> Response:
    log_fault("store-failed", error)
    return _problem(request, ProblemError(503, "unavailable", retry_after=5))


def _http_error(request: Any, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    status = error.status_code
    response = _problem(request, ProblemError(status, CODES.get(status, "bad_request")))
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response


def _gone(request: Any, error: Exception) -> Response:
    """Whoever asked has left before saying all of it: nothing to note, and nobody to read this."""
    return _problem(request, ProblemError(400, "bad_request"))


def _internal(request: Any, error: Exception) -> Response:
    log_fault("internal-error", error)
    return _problem(request, ProblemError(500, "internal"))


def _wants_html(scope: Mapping[str, Any]) -> bool:
    accepts = any(name == b"accept" and b"text/html" in value for name, value in scope["headers"])
    return accepts and scope["method"] == "GET"
