"""
Pages of a collector's results, for people; `/v1` has the same figures for programs.

The collector mounts `handlers(results, health)` at `/`, and `static` below it. Everything is drawn on the server; no
page needs its script, and none loads anything from another host.
"""

from reticent_collector.dashboard.endpoints import handlers, page_of, static
from reticent_collector.dashboard.pages import assets, login_page, problem_page

__all__ = ["assets", "handlers", "login_page", "page_of", "problem_page", "static"]
