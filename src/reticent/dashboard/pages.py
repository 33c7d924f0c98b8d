"""Templates, and the static files they link."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from reticent.counts import ABOUT

_TYPES = {
    "dashboard.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "charts.js": "text/javascript; charset=utf-8",
    "vendor/uplot/uPlot.min.css": "text/css; charset=utf-8",
    "vendor/uplot/uPlot.iife.min.js": "text/javascript; charset=utf-8",
    "pages.css": "text/css; charset=utf-8",
    "pages.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


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
    for file, media_type in _TYPES.items():
        content = (files("reticent.dashboard") / "static" / file).read_bytes()
        digest = sha256(content).hexdigest()[:16]
        stem, _, kind = file.rpartition("/")[2].rpartition(".")
        by_file[file] = Asset(f"{stem}.{digest}.{kind}", media_type, content, f'"{digest}"')
    return by_file


def assets() -> dict[str, Asset]:
    """The static files, by the name they are served under."""
    return {asset.name: asset for asset in _assets().values()}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("reticent.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"about": ABOUT, "path": "", "twin": "", "logged_in": False, "refresh": False}
    environment.globals["asset"] = lambda file: f"/static/{_assets()[file].name}"
    return environment


def render(template: str, **shown: Any) -> str:
    """A page: `title`, `path` (its own address), `twin` (that of its JSON), and what its template shows."""
    return _environment().get_template(template).render(**shown)


def json_of(answer: Any) -> bytes:
    """JSON, in which infinity and NaN are null."""
    return msgspec.json.encode(answer, enc_hook=float)  # NumPy's numbers


def login_page(message: str = "", next_path: str = "/") -> str:
    """The page that asks for a key: a form that POSTs `key` and `next`, a path on this server, to /login."""
    return render("login.html", title="Log in", message=message, next_path=next_path)


def problem_page(
    status: int,
    message: str,
    *,
    path: str = "/",
    logged_in: bool = False,
    title: str = "",
    instead: str = "",
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


_REFUSALS = {
    400: (
        "This request cannot be answered",
        "Check the address: a choice in it is not one of those offered.",
    ),
    401: ("You are not logged in", "Log in with a reader key, then open this address again."),
    403: ("You cannot open this page", "Log in with a reader key or an admin key."),
    404: (
        "There is nothing at this address",
        "Check the spelling. A plan or a metric may have another name, or is no longer served.",
    ),
    405: (
        "This address is not a page",
        "Programs send requests here, such as the reports of devices. There is nothing to open in a browser.",
    ),
    413: ("This request is too large", "Send less at once."),
    429: ("Too many requests", "Wait a few seconds, then try again."),
    500: ("This page failed", "Try again. If it fails again, the log of the collector says where."),
    503: ("The collector is busy", "Wait a few seconds, then load this page again. No report is lost."),
}
"""By status: what a browser is told, and what to do."""
