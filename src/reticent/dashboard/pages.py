"""Templates, and the style and script they link: everything a browser gets comes from here."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from reticent.dashboard.views.view import View

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""What every page is sent with; `login_page` and `problem_page` are written for it too."""

_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file; its name holds a hash of its content, so a browser may keep it for ever."""

    name: str
    media_type: str
    content: bytes
    etag: str

    @property
    def path(self) -> str:
        """Where it is served."""
        return f"/static/{self.name}"


@cache
def assets() -> dict[str, Asset]:
    """The style, the script and the icon, by the name they are served under."""
    found = {}
    for name in ("dashboard.css", "dashboard.js", "icon.svg"):
        content = (files("reticent.dashboard") / "static" / name).read_bytes()
        digest = sha256(content).hexdigest()[:16]
        stem, _, kind = name.rpartition(".")
        asset = Asset(f"{stem}.{digest}.{kind}", _TYPES[kind], content, f'"{digest}"')
        found[asset.name] = asset
    return found


def _asset_path(name: str) -> str:
    stem, _, kind = name.rpartition(".")
    return next(
        asset.path
        for asset in assets().values()
        if asset.name.startswith(f"{stem}.") and asset.name.endswith(f".{kind}")
    )


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("reticent.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["asset"] = _asset_path
    return made


def render(view: View, path: str, twin: str, logged_in: bool) -> str:
    """A view as a page."""
    return (
        _environment()
        .get_template(view.template)
        .render(
            **view.shown, title=view.title, path=path, twin=twin, logged_in=logged_in, refresh=view.refresh
        )
    )


def login_page(message: str = "", next_path: str = "/") -> str:
    """The page that asks for a key: a form that POSTs `key` and `next` to /login."""
    return _bare("login.html", "Log in", message=message, next_path=safe_next(next_path))


def problem_page(title: str, message: str, instead: str = "/", logged_in: bool = False) -> str:
    """A page that says what is wrong, in words for the person who asked, and where to go on."""
    return _bare("problem.html", title, message=message, instead=instead, logged_in=logged_in)


def _bare(template: str, title: str, logged_in: bool = False, **shown: str) -> str:
    return (
        _environment()
        .get_template(template)
        .render(**shown, title=title, path="", twin="", logged_in=logged_in, refresh=False)
    )


def safe_next(path: str) -> str:
    """
    A path on this server to go to after logging in; anything that might lead elsewhere becomes "/".

    >>> [safe_next(path) for path in ("/plans/app?by=os", "//evil.example", "https://evil.example")]
    ['/plans/app?by=os', '/', '/']
    """
    local = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if local and path.isprintable() else "/"
