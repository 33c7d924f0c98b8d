"""
Pages and their JSON twins.

The collector mounts `handlers(results, health)` at `/`, and `static` below it. Everything is drawn on the server; no
page needs its script, and none loads anything from another host.
"""

from reticent.errors import MissingExtraError

try:
    import jinja2 as _jinja2  # noqa: F401
    import starlette as _starlette  # noqa: F401
except ImportError as missing:
    raise MissingExtraError("collector", (missing.name or "jinja2").partition(".")[0]) from missing

from reticent_collector.dashboard.endpoints import handlers, pair, static
from reticent_collector.dashboard.pages import assets, login_page, problem_page

__all__ = ["assets", "handlers", "login_page", "pair", "problem_page", "static"]
