"""Templates, and the style and script they link: everything a browser gets comes from here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from reticent.counts import ABOUT

_TYPES = {
    "dashboard.css": "text/css; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
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
        stem, _, kind = file.rpartition(".")
        by_file[file] = Asset(f"{stem}.{digest}.{kind}", media_type, content, f'"{digest}"')
    return by_file


def assets() -> dict[str, Asset]:
    """The style, the script and the icon, by the name they are served under."""
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


def login_page(message: str = "", next_path: str = "/") -> str:
    """The page that asks for a key: a form that POSTs `key` and `next`, a path on this server, to /login."""
    return render("login.html", title="Log in", message=message, next_path=next_path)


def problem_page(title: str, message: str, instead: str = "/", logged_in: bool = False) -> str:
    """A page that says what is wrong, in words for the person who asked, and where to go on."""
    return render("problem.html", title=title, message=message, instead=instead, logged_in=logged_in)
