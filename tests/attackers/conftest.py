"""Collectors to attack, with keys of every kind; the helpers are those of the collector and the dashboard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from collector.tests.dashboard.conftest import Page

from reticent.plan import Plan
from reticent_collector import dashboard
from reticent_collector.http import COOKIE, Collector
from reticent_collector.stores import Key, create_key, open_store


@pytest.fixture(scope="session")
def page_of() -> Callable[[str], Any]:
    """A page taken apart, as collector/tests/dashboard does it."""
    return Page


@dataclass
class Target:
    """A collector under attack: its application, the real server around it, and keys of every role."""

    app: Collector
    service: Any
    texts: dict[str, str] = field(default_factory=dict)
    """What was handed out, by role; "revoked" is an admin's that is so."""
    keys: dict[str, Key] = field(default_factory=dict)

    def cookie(self, role: str) -> str:
        """A session of a key, whether or not anybody could have got it by logging in."""
        return f"{COOKIE}={self.app.access.session(self.keys[role])}"

    def open_reports(self) -> int:
        return int(self.app.store.open_reports)


def add_keys(target: Target) -> None:
    for role in ("ingest", "reader", "admin", "revoked"):
        text, key = create_key("admin" if role == "revoked" else role, "", int(time.time()))
        target.app.store.add_key(key)
        if role == "revoked":
            assert target.app.store.revoke_key(key.id, int(time.time()))
        target.texts[role], target.keys[role] = text, key
    target.app.access.refresh()


@pytest.fixture(scope="session")
def attack(tools: Any) -> Callable[..., Any]:
    """Set up a collector for plans, behind a real server in a thread; `fill` may bring reports beforehand."""

    @contextmanager
    def opened(*plans: str, fill: Callable[[Any], None] | None = None, **given: Any) -> Iterator[Target]:
        made = [Plan.from_toml(text) for text in plans]
        app = Collector(made, open_store("memory:"), pages=dashboard, **given)
        if fill is not None:
            fill(app.store)
        with tools.in_thread(app, app.limits) as service:
            service.plans = made
            target = Target(app, service)
            add_keys(target)
            yield target

    return opened


@pytest.fixture(scope="session")
def target(tools: Any, attack: Any) -> Iterator[Target]:
    """One collector that most attacks share."""
    with attack(tools.usage()) as made:
        yield made
