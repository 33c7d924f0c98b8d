"""The Grafana dashboard in examples/ asks for names that `/metrics` has, and shows all that it has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from reticent.collector.metrics import BY_KEY, COUNTERS, GAUGES, render_metrics
from reticent.plan import Plan
from reticent.results import Results
from reticent.stores import Layout, RoundKey, open_store

BOARD = Path(__file__).parents[2] / "examples" / "grafana" / "reticent.json"


def queries(board: dict[str, Any]) -> Iterator[str]:
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def exposed(tools: Any) -> dict[str, set[str]]:
    """Names of samples and their labels, of a store with a sealed round, by the official parser."""
    store = open_store("memory:")
    plan = Plan.from_toml(tools.usage())
    store.register(plan)
    key = RoundKey(plan.name, plan.version, 100)
    layout = Layout(plan)
    store.append({key: b"".join(layout.pack(report) for report in tools.reports(plan, key.round, 20))})
    store.seal(key)
    times = {"uptime_seconds": 9.0, "commit_p50_ms": 0.4, "commit_p99_ms": 2.0}
    keys = [{"id": "1f2e3d4c", **dict.fromkeys(BY_KEY, 1)}]
    health = {**dict.fromkeys((*GAUGES, *COUNTERS), 1.0), **times, "rejected": {"late": 1}, "keys": keys}
    body, _ = render_metrics(Results(store), health, "application/openmetrics-text")
    return {
        sample.name: set(sample.labels)
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_every_name_and_label_it_asks_for_is_exposed_and_every_name_is_shown(tools: Any) -> None:
    names = exposed(tools)
    asked: set[str] = set()
    for query in queries(json.loads(BOARD.read_text())):
        found = re.findall(r"(reticent_\w+)(?:\{([^}]*)\})?", query)
        assert found, query
        for name, labels in found:
            assert name in names, query
            assert set(re.findall(r"(\w+)\s*(?:=|!=|=~)", labels)) <= names[name], query
            asked.add(name)
    assert asked == set(names)


def test_panels_have_numbers_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads(BOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24
