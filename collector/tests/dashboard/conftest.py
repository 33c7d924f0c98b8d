"""A collector's store filled with real reports: sealed rounds, a gap, an open round, two segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPConnection
from typing import Any

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.shared.collectors import in_thread

from reticent.plan import Plan
from reticent_collector.dashboard import handlers, static
from reticent_collector.http import SECURITY_HEADERS, Health, KeyTraffic
from reticent_collector.results import Results
from reticent_collector.stores import Layout, RoundKey, Store, open_store
from reticent_lab.fleet import SdkFleet

PLAN = """
min_reports = 1
[plan]
name = "app-usage"
version = 1
round = "6h"
grace = "6h"
owner = "telemetry@example.org"
expires = 2027-11-01

[metrics.editor_seconds]
kind = "mean"
unit = "second"
description = "Seconds with the editor in front"
max_value = 21600
epsilon = 2.0
flip = 0.05

[metrics.browser_seconds]
kind = "mean"
unit = "second"
description = "Seconds with the built-in browser in front"
max_value = 21600
epsilon = 2.0

[metrics.editor_spread]
kind = "histogram"
unit = "second"
description = "How editor time is spread over devices"
max_value = 21600
buckets = 16
mechanism = "hadamard-bit"
epsilon = 2.0

[metrics.starts]
kind = "histogram"
description = "How often the editor was started"
edges = [0, 1, 2, 4, 8, 16]
mechanism = "d-bit-flip"
bits = 2
epsilon = 4.0

[groups.apps]
metrics = ["editor_seconds", "browser_seconds"]
max_total = 21600

[segments]
os = ["windows", "macos", "linux"]
channel = ["stable", "beta"]
"""

FIRST = 1_790_000_000 // 21_600
"""The first round; it begins in September 2026."""

HEALTH = Health(
    version="0.1.0",
    store="memory:",
    uptime_seconds=93_784.0,
    requests=1300,
    accepted=1200,
    duplicate=30,
    rejected={"malformed": 2, "unknown_plan": 1, "late": 50},
    commit_p50_ms=0.41,
    commit_p99_ms=3.1,
    open_reports=200,
    rate=50.0,
    keys=(
        KeyTraffic("1f2e3d4c", "phones in the field", "ingest", True, 1000, 1100, 20, 0, 600, 0),
        KeyTraffic("5a6b7c8d", "", "admin", False, 100, 130, 33, 7, 0, 0),
    ),
)


class Page(HTMLParser):
    """A page taken apart: every start tag with its attributes, the cells of tables, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.rows: list[list[str]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self._last = ""
        self._cell = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self._last = tag
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        self._last = ""
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._last in ("script", "style"):
            self.scripts.append(data)
        if data.strip():
            self.texts.append(data.strip())
        if self._cell:
            self.rows[-1][-1] = (self.rows[-1][-1] + data).strip()

    def all(self, name: str) -> list[dict[str, str]]:
        """The attributes of every tag of a name."""
        return [attributes for tag, attributes in self.tags if tag == name]

    @property
    def addresses(self) -> list[str]:
        """Everything a browser might fetch or go to."""
        keys = ("href", "src", "action", "srcset", "data", "poster", "formaction", "xlink:href")
        return [attributes[key] for _, attributes in self.tags for key in keys if key in attributes]


@dataclass(frozen=True)
class Answer:
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def page(self) -> Page:
        return Page(self.text)

    def json(self) -> Any:
        return json.loads(self.text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@contextmanager
def serving(app: ASGIApp) -> Iterator[int]:
    """A real server on loopback, for as long as the block lasts; yields its port."""
    with in_thread(app) as service:
        yield service.port


@dataclass
class World:
    """A store, the clock it is read by, and what is known about its devices."""

    store: Store
    plan: Plan
    now: float
    health: Health = HEALTH
    logged_in: bool = False
    port: int = 0

    def __post_init__(self) -> None:
        self.store.register(self.plan)
        self.results = Results(self.store, lambda: self.now)
        pages = handlers(self.results, lambda: self.health, [self.plan.name]).items()
        self._starlette = Starlette(
            routes=[*(Route(path, page) for path, page in pages), Route("/static/{name}", static)]
        )

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The dashboard behind what stands for the collector's middleware."""

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*(dict(SECURITY_HEADERS) | dict(message["headers"])).items()]
            await send(message)

        if scope["type"] == "http":
            Request(scope).state.logged_in = self.logged_in
        await self._starlette(scope, receive, send_safely)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """What a browser would get."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", path, headers=dict(headers or {}))
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, headers, text.replace("\N{NO-BREAK SPACE}", " "))

    def answer(
        self, fleet: SdkFleet, number: int, values: dict[str, Sequence[Any]], seal: bool = True
    ) -> None:
        """A round, answered by the code of real devices."""
        layout, key = Layout(fleet.plan), RoundKey(fleet.plan.name, fleet.plan.version, number)
        self.store.append({key: b"".join(layout.pack(report) for report in fleet.reports(number, values))})
        if seal:
            self.store.seal(key)


def fill(world: World, devices: int, rounds: int, seed: int = 7, gap: int | None = None) -> None:
    """Rounds of a simulated fleet up to the world's clock; the last one is open and half answered."""
    generator = np.random.default_rng(seed)
    systems = np.arange(devices) % 7 % 3
    segments = [
        {
            "os": ("windows", "linux", "macos")[systems[device]],
            "channel": "beta" if device % 5 == 0 else "stable",
        }
        for device in range(devices)
    ]
    fleet = SdkFleet(world.plan, devices, seed, segments)
    half = SdkFleet(world.plan, devices // 2, seed, segments)
    habit = generator.lognormal(8.6, 0.45, devices) * np.choose(systems, (0.85, 1.35, 1.0))
    for place in range(rounds):
        if place == gap:
            continue
        week = 1 + 0.3 * np.sin(place * np.pi / 14)
        seconds = np.minimum(habit * week * generator.gamma(4, 0.25, devices), 20_000).astype(int)
        last = place == rounds - 1
        columns = {
            "editor_seconds": seconds.tolist(),
            "browser_seconds": np.minimum(seconds[::-1] // 3, 21_600 - seconds).tolist(),
            "editor_spread": seconds.tolist(),
            "starts": np.minimum(seconds // 1500, 16).tolist(),
        }
        world.answer(half if last else fleet, FIRST + place, columns, seal=not last)


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    """400 devices, 12 rounds, of which the eighth is missing and the last is open."""
    rounds = 12
    made = World(open_store("memory:"), Plan.from_toml(PLAN), (FIRST + rounds) * 21_600 + 1800.0)
    fill(made, devices=400, rounds=rounds, gap=7)
    with serving(made.app) as made.port:
        yield made
    made.store.close()


@pytest.fixture
def make_world() -> Iterator[Callable[..., World]]:
    """Worlds of one's own."""
    with ExitStack() as stack:

        def make(text: str = PLAN, now: float = (FIRST + 1) * 21_600 + 60.0) -> World:
            made = World(open_store("memory:"), Plan.from_toml(text), now)
            stack.callback(made.store.close)
            made.port = stack.enter_context(serving(made.app))
            return made

        yield make
