"""Templates, and the static files they link."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from reticent_collector.counts import ABOUT

HOME = "reticent_collector.dashboard"
_FILES = ("dashboard.css", "dashboard.js", "pages.css", "pages.js", "icon.svg")
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_IN_A_FIGURE = re.compile(r"(?<=\d) (?=± \d)|(?<=\d ±) (?=\d)|(?<=\d) (?=%)")


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file; its name holds a hash of its content, so a browser may keep it for ever."""

    name: str
    media_type: str
    content: bytes
    etag: str


@cache
def _assets() -> dict[str, Asset]:
    """The static files, by their names in the templates."""
    by_file = {}
    for file in _FILES:
        content = (files(HOME) / "static" / file).read_bytes()
        digest = sha256(content).hexdigest()[:16]
        stem, _, kind = file.rpartition("/")[2].rpartition(".")
        by_file[file] = Asset(f"{stem}.{digest}.{kind}", _TYPES[kind], content, f'"{digest}"')
    return by_file


def assets() -> dict[str, Asset]:
    """The static files, by the name they are served under."""
    return {asset.name: asset for asset in _assets().values()}


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(HOME)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"about": ABOUT, "path": "", "data": "", "logged_in": False, "refresh": 0}
    environment.globals["asset"] = lambda file: f"/static/{_assets()[file].name}"
    return environment


def render(template: str, package: str = HOME, **shown: Any) -> str:
    """
    A page: `title`, `path` (its own address), `data` (that of its data as JSON), and what its template shows.

    The template is one of `package`, and may build on those of the dashboard. A line never ends within "4.9 ± 2.2 %".
    """
    text = _environment(package).get_template(template).render(**shown)
    return _IN_A_FIGURE.sub("\N{NO-BREAK SPACE}", text)


def json_of(answer: Any) -> bytes:
    """JSON, in which infinity and NaN are null."""
    return msgspec.json.encode(answer, enc_hook=float)  # NumPy's numbers


def login_page(message: str = "", next_path: str = "/") -> str:
    """The page that asks for a key: a form that POSTs `key` and `next`, a path on this server, to /login."""
    return render("login.html", title="Log in", message=message, next_path=next_path)


def problem_page(
    status: int, message: str, *, path: str = "/", logged_in: bool = False, title: str = "", instead: str = ""
) -> str:
    """The page of a refused request: what is wrong, what to do, and where to go from there."""
    usual, hint = _REFUSALS.get(status, _REFUSALS[400] if status < 500 else _REFUSALS[500])
    of_public = f"{path}/".startswith("/public/")
    home = "/public" if of_public else "/login" if status in (401, 403) else "/"
    return render(
        "problem.html",
        title=title or usual,
        status=status,
        message=message,
        hint="" if title else hint,
        instead=instead or home,
        is_public=of_public,
        logged_in=logged_in and not of_public,
    )


_REFUSALS = {  # by status: the title, and what to do
    400: (
        "This request is invalid",
        "Check the address: it contains a value that is not one of the choices.",
    ),
    401: ("You are not logged in", "Log in with a reader key, then open this address again."),
    403: ("Access denied", "Log in with a reader key or an admin key."),
    404: ("Page not found", "Check the spelling. The plan or metric may have been renamed or removed."),
    405: ("This address is not a page", "It is for programs, such as devices that send reports."),
    413: ("This request is too large", "Send less at once."),
    429: ("Too many requests", "Wait a few seconds, then try again."),
    500: ("This page failed", "Try again. If it fails again, the collector's log says where."),
    503: ("The collector is busy", "Wait a few seconds, then reload this page. No report is lost."),
}
