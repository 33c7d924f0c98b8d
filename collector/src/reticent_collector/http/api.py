"""All paths but ingest: plans, estimates, rounds, health, metrics, and the routes of the pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Message, Receive, Scope, Send

from reticent.errors import MissingPackageError, ParameterError, StoreError
from reticent.plan import Plan
from reticent_collector.counts import ABOUT
from reticent_collector.estimates.table import arrow_bytes, csv_text, rows_as_csv
from reticent_collector.http.access import Access, Login, Pages
from reticent_collector.http.exposition import render_metrics
from reticent_collector.http.health import Health, Readiness
from reticent_collector.http.log import log_fault
from reticent_collector.http.notes import LONGEST_NOTES, NOTE_ROW, keep_no_notes, note_row, read_notes
from reticent_collector.http.openapi import openapi_document
from reticent_collector.http.problems import CONTENT_TYPE, ProblemError
from reticent_collector.http.readers import Readers
from reticent_collector.results import (
    MOST_ROUNDS,
    PLAN_ROW,
    ROUND_ROW,
    Difference,
    Query,
    Results,
    Selection,
    Trend,
    check_against,
    difference,
    one_answer,
    plan_rows,
    round_rows,
    trend,
)
from reticent_collector.stores import Note

OPEN_PATHS = ("/healthz", "/readyz", "/login", "/logout")
HEALTH_PATHS = ("/health", "/health.json")
WHOLE_COLLECTOR = (*HEALTH_PATHS, "/metrics")
"""What a key for some plans does not open."""
CHANGE_PARAMETERS = {
    "plan",
    "metric",
    "every",
    "since",
    "until",
    "last",
    "segment",
    "by",
    "confidence",
    "version",
    "format",
}
ESTIMATE_PARAMETERS = {*CHANGE_PARAMETERS, "round"}
DIFFERENCE_PARAMETERS = {*CHANGE_PARAMETERS, "against", "baseline"}
USUAL_PERIODS = 100  # the latest periods or rounds, when the request names none
MOST_VERSION = 2**53
MOST_NUMBERS = 20_000  # of one response, each with its interval: bounds its time and memory
FORMATS = ("json", "csv", "arrow")
Entry = TypeVar("Entry", Difference, Trend)

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


class Api:
    """The paths behind a reader key."""

    def __init__(
        self,
        results: Results,
        ping: Callable[[], None],
        access: Access,
        health: Callable[[], Health],
        secure_cookies: bool,
        pages: Pages | None,
        public: Collection[str] = (),
        write_notes: Callable[[Sequence[Note], str], None] = keep_no_notes,
    ) -> None:
        self._results = results
        self._write_notes = write_notes
        self._access = access
        self._health = health
        self._pages = pages
        self._has_public = bool(public)
        self._ready = Readiness(ping)
        self._document = msgspec.json.encode(openapi_document())
        self._readers = Readers()
        self._monitors = Readers("reticent-reader-monitor")
        """Of their own, for what programs watch a collector by and devices ask for: no page keeps them waiting."""
        routes: list[BaseRoute] = [
            Route("/v1/plans", self._on_thread(self._plans, self._monitors)),
            Route("/v1/plans/{name}", self._on_thread(self._plan, self._monitors)),
            Route("/v1/estimates", self._on_thread(self._estimates)),
            Route("/v1/changes", self._on_thread(self._changes)),
            Route("/v1/differences", self._on_thread(self._differences)),
            Route("/v1/trends", self._on_thread(self._trends)),
            Route("/v1/rounds", self._on_thread(self._rounds)),
            Route("/v1/notes", self._on_thread(self._notes)),
            Route("/v1/notes", self._add_notes, methods=["POST"]),
            Route("/metrics", self._metrics),
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/openapi.json", self._openapi),
        ]
        if pages is not None:
            routes += Login(access, pages, secure_cookies).routes()
            for path, handler in pages.handlers(results, health, public).items():
                readers = self._monitors if path in HEALTH_PATHS else self._readers
                routes.append(Route(path, self._on_thread(handler, readers, path.startswith("/public"))))
            routes.append(Route("/static/{name}", pages.static))
        refused = (ProblemError, ParameterError, StoreError, HTTPException, ClientDisconnect, Exception)
        self._app = Starlette(routes=routes, exception_handlers=dict.fromkeys(refused, self._refusal))
        self._app.router.redirect_slashes = False

    def _on_thread(
        self, endpoint: Callable[[Request], Response], readers: Readers | None = None, public: bool = False
    ) -> Callable[[Request], Awaitable[Response]]:
        readers = readers or self._readers

        def shown(request: Request) -> Response:
            with one_answer(getattr(request.state, "plans", ())):
                return endpoint(request)

        async def answer(request: Request) -> Response:
            return await readers.run(shown, request, public=public, gone=_leaving(request))

        return answer

    def close(self) -> None:
        """Start no more work for readers."""
        self._readers.close()
        self._monitors.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the key, answer, and add the security headers."""
        started = False

        async def send_safely(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                names = {name.lower() for name, _ in message["headers"]}
                if b"content-security-policy" in names:  # it says itself who may frame it
                    names.add(b"x-frame-options")
                missing = [header for header in SECURITY_HEADERS if header[0] not in names]
                message["headers"] = [*message["headers"], *missing]
            await send(message)

        try:
            self._check_key(scope)
            await self._app(scope, receive, send_safely)
        except Exception as error:
            if started:  # Starlette raises once more what it has answered
                return
            request = Request(scope)
            response = self._refusal(request, error)
            if response.status_code == 401 and self._wants_page(request) and scope["method"] == "GET":
                path = scope["path"]
                query = scope.get("query_string", b"").decode("ascii", "replace")
                target = quote(f"{path}?{query}" if query else path)
                response = RedirectResponse(f"/login?next={target}", status_code=303)
            await response(scope, receive, send_safely)

    def _check_key(self, scope: Scope) -> None:
        """Refuse a request without the key that it needs; what the key allows is noted in the scope."""
        path = scope["path"]
        if path == "/v1/reports":
            raise HTTPException(405, headers={"allow": "POST"})
        if path in OPEN_PATHS or path.startswith("/static/"):
            return
        if self._has_public and f"{path}/".startswith("/public/"):
            return
        key = self._access.require(scope["headers"], ("reader", "admin"))
        state = scope.setdefault("state", {})
        state["logged_in"] = key is not None
        state["plans"] = key.plans if key else ()
        if state["plans"] and path in WHOLE_COLLECTOR:
            raise ProblemError(403, "forbidden", "This key is for some plans, and this is about all.")

    def _wants_page(self, request: Request) -> bool:
        return self._pages is not None and "text/html" in request.headers.get("accept", "")

    def _refusal(self, request: Request, error: Exception) -> Response:
        """A page for a browser, a problem document (RFC 9457) for others."""
        problem, headers = _problem_of(error)
        if self._pages is not None and self._wants_page(request):
            known = bool(getattr(request.state, "logged_in", False))
            page = self._pages.problem_page(
                problem.status, problem.detail, path=request.url.path, logged_in=known
            )
            return HTMLResponse(page, problem.status, headers={"vary": "accept", **headers})
        return Response(problem.body, problem.status, headers=headers, media_type=CONTENT_TYPE.decode())

    # These block: they are worked out on a thread for readers

    def _described(self, plan: Plan) -> dict[str, Any]:
        """A plan, and its metrics that ended."""
        return {**_described(plan), "ended": [metric.name for metric in self._results.ended(plan.name)]}

    def _plans(self, request: Request) -> Response:
        query = Query(request.query_params.multi_items(), {"plan", "format"})
        name = self._plan_asked(query)
        if _format_of(query, request.headers.get("accept", ""), ("json", "csv")) == "csv":
            return _csv(PLAN_ROW, plan_rows(self._results, name))
        plans = self._results.plans().values()
        return _json({"plans": [self._described(plan) for plan in plans if name in (None, plan.name)]})

    def _plan_asked(self, query: Query) -> str | None:
        """The plan that a request names, if it does."""
        plan = query.one("plan")
        if plan is not None and plan not in self._results.plans():
            raise ProblemError(404, "unknown_plan")
        return plan

    def _plan(self, request: Request) -> Response:
        plan = self._results.plans().get(request.path_params["name"])
        if plan is None:
            raise ProblemError(404, "unknown_plan")
        wants_json = "application/json" in request.headers.get("accept", "")
        body = msgspec.json.encode(self._described(plan)) if wants_json else plan.text.encode()
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": "no-cache", "vary": "accept"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(
            body, media_type="application/json" if wants_json else "application/toml", headers=headers
        )

    def _estimates(self, request: Request) -> Response:
        query = Query(request.query_params.multi_items(), ESTIMATE_PARAMETERS)
        form = _format_of(query, request.headers.get("accept", ""))
        selection = self._selection(query)
        results = self._results.estimates(selection)
        if form == "csv":
            return PlainTextResponse(csv_text(results.rows), media_type="text/csv")
        if form == "arrow":
            try:
                body = arrow_bytes(results.rows)
            except MissingPackageError as error:
                raise ProblemError(406, "not_acceptable", str(error)) from None
            return Response(body, media_type="application/vnd.apache.arrow.stream")
        damaged = self._results.damaged(selection.plan, query.whole("last", MOST_ROUNDS))
        return _lists({**results.to_dict(), "damaged": damaged})

    def _changes(self, request: Request) -> Response:
        query = Query(request.query_params.multi_items(), {*CHANGE_PARAMETERS, "against"})
        changes = self._results.changes(self._selection(query))
        return _listed(request, query, "changes", changes, difference.ROW, Difference.to_rows)

    def _differences(self, request: Request) -> Response:
        query = Query(request.query_params.multi_items(), DIFFERENCE_PARAMETERS)
        differences = self._results.differences(self._selection(query))
        return _listed(request, query, "differences", differences, difference.ROW, Difference.to_rows)

    def _trends(self, request: Request) -> Response:
        query = Query(request.query_params.multi_items(), CHANGE_PARAMETERS)
        trends = self._results.trends(self._selection(query))
        return _listed(request, query, "trends", trends, trend.ROW, lambda one: [one.to_row()])

    def _selection(self, query: Query) -> Selection:
        """What a request for estimates or changes asks for; the latest periods, unless it names some."""
        rounds = query.rounds()
        plan = query.one("plan")
        since = query.time("since")
        until = query.time("until")
        if plan is None:
            raise ParameterError("plan", "the name of a plan", "nothing")
        if plan not in self._results.plans():
            raise ProblemError(404, "unknown_plan")
        return Selection(
            plan,
            metric=query.one("metric"),
            rounds=rounds,
            last=query.whole("last", MOST_ROUNDS)
            or (USUAL_PERIODS if since is None and rounds is None else None),
            segment=query.segment(),
            by=query.one("by"),
            confidence=query.confidence(),
            every=query.one("every"),
            since=since,
            until=until,
            version=query.whole("version", MOST_VERSION),
            most=MOST_NUMBERS,
            against=check_against(query.one("against") or "before"),
            baseline=query.one("baseline"),
        )

    def _rounds(self, request: Request) -> Response:
        query = Query(request.query_params.multi_items(), {"plan", "last", "format"})
        plan = self._plan_asked(query)
        rounds = self._results.rounds(plan, query.whole("last", MOST_ROUNDS) or USUAL_PERIODS)
        if _format_of(query, request.headers.get("accept", ""), ("json", "csv")) == "csv":
            return _csv(ROUND_ROW, round_rows(rounds))
        return _json({"rounds": rounds})

    def _notes(self, request: Request) -> Response:
        query = Query(request.query_params.multi_items(), {"plan", "since", "until", "format"})
        plan = self._plan_asked(query)
        listed = self._results.notes(plan, query.time("since"), query.time("until"))
        notes = [note_row(note) for note in listed]
        if _format_of(query, request.headers.get("accept", ""), ("json", "csv")) == "csv":
            return _csv(NOTE_ROW, notes)
        return _json({"notes": notes})

    # These do not, or not in all they do

    async def _add_notes(self, request: Request) -> Response:
        """Store notes; with an admin key in a header, never by a session: a page elsewhere could send those."""
        key = None if self._access.is_open else self._access.key_of(request.scope["headers"])
        self._access.allow(key, ("admin",), request.scope["headers"])
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            raise ProblemError(415, "unsupported_media_type")
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_NOTES:
                raise ProblemError(413, "too_large")

        def store(request: Request) -> Response:
            notes = read_notes(body, self._results.plans())
            self._write_notes(notes, "by HTTP" if key is None else f"key {key.id}")
            return Response(
                msgspec.json.encode({"notes": [note_row(note) for note in notes]}),
                201,
                media_type="application/json",
            )

        return await self._monitors.run(store, request, public=False, gone=_leaving(request))

    async def _metrics(self, request: Request) -> Response:
        accept = request.headers.get("accept", "")
        body, kind = await self._monitors.run(
            render_metrics, self._results, self._health(), accept, gone=_leaving(request)
        )
        return Response(body, headers={"content-type": kind})

    async def _healthz(self, request: Request) -> Response:
        return _json({"status": "ok"})

    async def _readyz(self, request: Request) -> Response:
        if not await self._ready():
            raise ProblemError(503, "unavailable", retry_after=5)
        return _json({"status": "ready"})

    async def _openapi(self, request: Request) -> Response:
        return Response(self._document, media_type="application/json")


def _leaving(request: Request) -> Callable[[], Coroutine[Any, Any, None]]:
    """A wait until the client has gone, or at least sends no more."""

    async def until_gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            continue

    return until_gone


def _described(plan: Plan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "version": plan.version,
        "round_seconds": plan.round_seconds,
        "grace_seconds": plan.grace_seconds,
        "min_reports": plan.min_reports,
        "owner": plan.owner,
        "expires": plan.expires.isoformat() if plan.expires else None,
        "metrics": [
            {"name": metric.name, "kind": metric.kind, "unit": metric.unit, "description": metric.description}
            for metric in plan.metrics
        ],
        "segments": {segment.name: list(segment.tags) for segment in plan.segments},
        "toml": plan.text,
    }


def _json(answer: object) -> Response:
    return Response(msgspec.json.encode(answer), media_type="application/json")


def _csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Response:
    return PlainTextResponse(rows_as_csv(columns, rows), media_type="text/csv")


def _listed(
    request: Request,
    query: Query,
    name: str,
    entries: Sequence[Entry],
    columns: Sequence[str],
    rows_of: Callable[[Entry], Iterable[Mapping[str, Any]]],
) -> Response:
    """A list in JSON, or as CSV."""
    if _format_of(query, request.headers.get("accept", ""), ("json", "csv")) == "csv":
        rows = (row for entry in entries for row in rows_of(entry))
        return _csv(columns, rows)
    return _lists({"about": ABOUT, name: [entry.to_dict() for entry in entries]})


def _lists(answer: dict[str, Any]) -> Response:
    """Encode lists item by item: encoding all at once would block every other thread."""
    encode, fields = msgspec.json.encode, []
    for name, part in answer.items():
        listed = isinstance(part, list)
        fields.append(
            encode(name) + b":" + (b"[%b]" % b",".join(map(encode, part)) if listed else encode(part))
        )
    return Response(b"{%b}" % b",".join(fields), media_type="application/json")


def _problem_of(error: Exception) -> tuple[ProblemError, dict[str, str]]:
    """An error as a problem, and its headers. An error may quote the request: it is named, never printed."""
    more: dict[str, str] = {}
    match error:
        case ProblemError():
            problem = error
        case ParameterError():
            problem = ProblemError(400, "bad_request", str(error))
        case StoreError():
            log_fault("store-failed", error)
            problem = ProblemError(503, "unavailable", retry_after=5)
        case HTTPException():
            codes = {404: "not_found", 405: "method_not_allowed"}
            problem = ProblemError(error.status_code, codes.get(error.status_code, "bad_request"))
            more = dict(error.headers or {})
        case ClientDisconnect():  # nothing to log, and no client to read this
            problem = ProblemError(400, "bad_request")
        case _:
            log_fault("internal-error", error)
            problem = ProblemError(500, "internal")
    headers = {name.decode(): value.decode() for name, value in problem.headers}
    of_the_body = ("content-type", "content-length")
    return problem, {**{name: text for name, text in headers.items() if name not in of_the_body}, **more}


def _format_of(query: Query, accept: str, formats: Sequence[str] = FORMATS) -> str:
    """One of some formats: as given, else as the Accept header prefers."""
    asked = query.one_of("format", formats)
    if asked is not None:
        return asked
    preferred = "csv" if "text/csv" in accept else "arrow" if "apache.arrow" in accept else "json"
    return preferred if preferred in formats else "json"
