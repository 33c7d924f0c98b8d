"""Logging in to the dashboard with a key, and logging out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from reticent.collector.access import COOKIE, SESSION_SECONDS, Access
from reticent.collector.health import Health
from reticent.collector.problems import ProblemError
from reticent.results import Results

LONGEST_FORM = 4096


class Pages(Protocol):
    """What adds pages for people: `reticent.dashboard`."""

    def routes(self, results: Results, health: Callable[[], Health]) -> Sequence[BaseRoute]:
        """The pages."""

    def login_page(self, message: str, next_path: str) -> str:
        """The page that asks for a key."""


class Login:
    """Gives a cookie for a reader's key, and takes it back."""

    def __init__(self, access: Access, pages: Pages, secure_cookies: bool) -> None:
        self._access = access
        self._pages = pages
        self._secure = secure_cookies

    def routes(self) -> list[BaseRoute]:
        """Its paths, which need no key."""
        return [
            Route("/login", self.page),
            Route("/login", self.log_in, methods=["POST"]),
            Route("/logout", self.log_out, methods=["POST"]),
        ]

    async def page(self, request: Request) -> Response:
        """`GET /login`."""
        return self._form("", request.query_params.get("next", "/"), 200)

    async def log_in(self, request: Request) -> Response:
        """`POST /login`: a cookie for the key of a reader."""
        _require_same_site(request)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > LONGEST_FORM:
                raise ProblemError(413, "too_large")
        fields = parse_qs(body.decode("utf-8", "replace"))
        key = self._access.known(fields.get("key", [""])[0].strip().encode())
        target = _local(fields.get("next", ["/"])[0])
        if key is None or key.role not in ("reader", "admin"):
            return self._form("That is not a reader's key.", target, 401)
        response = RedirectResponse(target, status_code=303)
        response.set_cookie(
            COOKIE,
            self._access.session(key),
            max_age=SESSION_SECONDS,
            httponly=True,
            samesite="strict",
            secure=self._secure,
            path="/",
        )
        return response

    async def log_out(self, request: Request) -> Response:
        """`POST /logout`: the end of it."""
        _require_same_site(request)
        response = RedirectResponse("/login", status_code=303)
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict", secure=self._secure)
        return response

    def _form(self, message: str, target: str, status: int) -> Response:
        page = self._pages.login_page(message, _local(target))
        return Response(page, status_code=status, media_type="text/html")


def _require_same_site(request: Request) -> None:
    """
    A form that another site sends is refused, whatever cookies come with it.

    Browsers say where a request comes from; those that do not yet say at least which site it was.
    """
    origin = request.headers.get("origin")
    by_name = origin is None or origin.partition("://")[2] == request.headers.get("host")
    site = request.headers.get("sec-fetch-site")
    if site not in ("same-origin", "none") if site is not None else not by_name:
        raise ProblemError(403, "forbidden")


def _local(target: str) -> str:
    """A path on this server; anything that would lead elsewhere becomes the start page."""
    safe = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if safe and "\\" not in target else "/"
