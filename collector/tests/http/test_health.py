"""How the collector is doing: what each key sends, whether the store answers, and what Prometheus gets."""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import subprocess
import time
from collections import deque
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families
from tests.shared.collectors import in_thread

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent.reports import to_ndjson
from reticent_collector.http import (
    LATELY_SECONDS,
    Collector,
    Health,
    KeyTraffic,
    Readiness,
    Traffic,
    decoded,
    encoded,
    exposition,
    make_server,
    render_metrics,
    together,
)
from reticent_collector.http.health import RequestTimes, process_figures
from reticent_collector.http.server import certificate_end
from reticent_collector.results import Results
from reticent_collector.stores import Key, Layout, RoundKey, create_key, open_store

BOARD = Path(__file__).parents[3] / "examples" / "grafana" / "reticent.json"

steps = st.lists(st.tuples(st.floats(0, 400), st.integers(0, 9)), max_size=60)


def key(number: int, role: Any = "ingest", revoked: int | None = None) -> Key:
    return Key(f"{number:08x}", role, bytes([number]), f"label {number}", 0, revoked)


@given(steps)
def test_lately_is_a_window_that_slides_by_slots(moves: list[tuple[float, int]]) -> None:
    """Against a list of everything: what is at most 290 s old counts, what is 300 s old does not."""
    now, everything = [0.0], deque[tuple[float, int]]()
    traffic = Traffic(lambda: now[0])

    def lately() -> int:
        return traffic.table([key(1)])[0].reports_lately

    for wait, count in moves:
        now[0] += wait
        traffic.reports(key(1), count)
        everything.append((now[0], count))
        least = sum(count for at, count in everything if now[0] - at <= LATELY_SECONDS - 10)
        most = sum(count for at, count in everything if now[0] - at < LATELY_SECONDS)
        assert least <= lately() <= most
    now[0] += LATELY_SECONDS
    assert lately() == 0


@pytest.fixture
def counted() -> tuple[Traffic, list[float]]:
    now = [1000.0]
    return Traffic(lambda: now[0]), now


def test_each_key_has_a_line_of_its_own(counted: tuple[Traffic, list[float]]) -> None:
    traffic, now = counted
    one, two = key(1), key(2, "admin")
    for _ in range(3):
        traffic.request(one)
    traffic.reports(one, 500)
    traffic.refused(one, "late", 4)
    traffic.request(two)
    traffic.refused(two, "rate_limited")
    first, second = traffic.table([two, one])
    assert first == KeyTraffic("00000001", "label 1", "ingest", True, 3, 500, 4, 0, 500, 0)
    assert second == KeyTraffic("00000002", "label 2", "admin", True, 1, 0, 1, 1, 0, 1)
    now[0] += LATELY_SECONDS
    first, second = traffic.table([two, one])
    assert (first.reports, first.reports_lately) == (500, 0)
    assert (second.limited, second.limited_lately) == (1, 0)


def test_keys_that_may_send_have_a_line_and_so_have_those_that_tried(
    counted: tuple[Traffic, list[float]],
) -> None:
    traffic, _ = counted
    silent, reader, tried, revoked, gone = (
        key(1),
        key(2, "reader"),
        key(3, "reader"),
        key(4, revoked=5),
        key(5),
    )
    traffic.request(tried)
    traffic.request(gone)
    traffic.reports(gone, 7)
    keys = [silent, reader, tried, revoked, key(5, revoked=9)]
    lines = traffic.table(keys)
    assert [(line.id, line.active) for line in lines] == [
        ("00000005", False), ("00000003", True), ("00000001", True),
    ]  # fmt: skip


def test_nothing_is_counted_without_a_key(counted: tuple[Traffic, list[float]]) -> None:
    traffic, _ = counted
    traffic.request(None)
    traffic.reports(None, 5)
    traffic.refused(None, "unauthorized")
    assert traffic._sent == {}


def test_a_line_has_no_way_to_the_secret() -> None:
    text, made = create_key("ingest", "phones", 0)
    (line,) = Traffic().table([made])
    assert text.split("_", 3)[3] not in str(line)
    assert made.hash.hex() not in str(line)


def series(page: str, name: str) -> dict[str, float]:
    return {
        sample.labels["key"]: sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    }


def test_through_the_collector(start: Callable[..., Any], tools: Any) -> None:
    """Requests, reports and refusals by key: on /metrics and on the health page's twin, the same."""
    service = start(tools.usage(), keys=("ingest", "admin", "reader"), options=("--rate", "60"))
    plan, ids = service.plans[0], {role: text.split("_")[2] for role, text in service.keys.items()}
    reports = tools.make_reports(plan, service.now(plan), 100)
    wrong = [*reports[:2], *tools.make_reports(plan, 5, 3)]
    assert service.post(to_ndjson(wrong), "application/x-ndjson", service.keys["admin"]).status == 202
    assert service.post(to_ndjson(reports), "application/x-ndjson", service.keys["ingest"]).status == 202
    assert service.send(reports[0], service.keys["ingest"]).status == 429
    assert service.send(reports[0], service.keys["reader"]).status == 403
    assert service.send(reports[0], "reticent_ingest_00000000_" + "A" * 43).status == 401
    page = service.get("/metrics", service.keys["reader"]).body.decode()
    assert series(page, "reticent_key_reports_total") == {
        ids["ingest"]: 100,
        ids["admin"]: 2,
        ids["reader"]: 0,
    }
    assert series(page, "reticent_key_requests_total") == {
        ids["ingest"]: 2,
        ids["admin"]: 1,
        ids["reader"]: 1,
    }
    assert series(page, "reticent_key_refused_total") == {ids["ingest"]: 1, ids["admin"]: 3, ids["reader"]: 1}
    assert series(page, "reticent_key_limited_total") == {ids["ingest"]: 1, ids["admin"]: 0, ids["reader"]: 0}
    health = service.get("/health", service.keys["reader"]).body.decode()
    places = [health.index(ids[role]) for role in ("ingest", "admin", "reader")]
    assert places == sorted(places), "the busiest first"
    assert "Needs attention: Over the rate" in health or ", Over the rate" in health
    for text in service.keys.values():
        assert text.split("_", 3)[3] not in page + health


class Asked:
    """A store that counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0
        self.failing = False

    def __call__(self) -> None:
        self.times += 1
        if self.failing:
            raise StoreError("gone")


def test_an_answer_stands_for_a_second_be_it_good_or_bad() -> None:
    store, now = Asked(), [100.0]
    ready = Readiness(store, lambda: now[0])

    async def story() -> list[tuple[bool, int]]:
        seen = []
        for seconds, failing in ((0.0, False), (0.9, True), (0.2, True), (0.8, False), (0.3, False)):
            now[0] += seconds
            store.failing = failing
            seen.append((await ready(), store.times))
        return seen

    assert asyncio.run(story()) == [(True, 1), (True, 1), (False, 2), (False, 2), (True, 3)]


def test_those_who_ask_at_once_share_one_question() -> None:
    store = Asked()

    async def many() -> list[bool]:
        ready = Readiness(store)
        return list(await asyncio.gather(*(ready() for _ in range(50))))

    assert asyncio.run(many()) == [True] * 50
    assert store.times == 1


def test_a_collector_whose_commits_fail_is_not_ready_though_small_writes_succeed(
    monkeypatch: pytest.MonkeyPatch, tools: Any
) -> None:
    """As on a full disk, where the log of the store still has room for a page."""
    store = open_store("memory:")
    plan = Plan.from_toml(tools.usage())
    append = store.append
    monkeypatch.setattr("reticent_collector.http.health.FRESH_SECONDS", 0.0)

    def fail(records: object) -> None:
        raise StoreError("database or disk is full")

    with in_thread(Collector([plan], store)) as service:
        first, second, third = tools.make_reports(plan, service.now(plan), 3)
        assert service.get("/readyz").status == 200
        monkeypatch.setattr(store, "append", fail)
        assert service.send(first).status == 503
        store.ping()
        assert service.get("/readyz").status == 503
        monkeypatch.setattr(store, "append", append)
        assert service.get("/readyz").status == 503, "no commit has succeeded yet"
        assert service.send(second).status == 202
        assert service.get("/readyz").status == 200
        monkeypatch.setattr(store, "append", fail)
        assert service.send(third).status == 503
        monkeypatch.setattr("reticent_collector.http.app.FAILED_SECONDS", 0.0)
        assert service.get("/readyz").status == 200, "nothing is sent to it any more: a small write decides"
        monkeypatch.setattr(store.backend, "ping", lambda: fail(None))
        assert service.get("/readyz").status == 503


def exposed(tools: Any) -> dict[str, set[str]]:
    """Names of samples and their labels, of a store with a sealed round, by the official parser."""
    store = open_store("memory:")
    plan = Plan.from_toml(tools.usage().replace("[plan]", "[plan]\nexpires = 2031-05-01", 1))
    store.register(plan)
    layout = Layout(plan)
    for number in (0, 28 * 86_400 // plan.round_seconds):  # four weeks apart
        key = RoundKey(plan.name, plan.version, number)
        store.append({key: b"".join(layout.pack(report) for report in tools.make_reports(plan, number, 20))})
        store.seal(key)
    keys = (KeyTraffic("1f2e3d4c", "", "ingest", True),)
    health = Health(
        "1.0",
        "sqlite:///store.db",
        rejected={"late": 1},
        keys=keys,
        requests_of={"reports": RequestTimes()},
        process=process_figures(),
        certificate_expires=1.0,
    )
    body, _ = render_metrics(Results(store), health, "application/openmetrics-text")
    labels: dict[str, set[str]] = {}
    for family in openmetrics_families(body.decode()):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    return labels


def test_every_name_and_label_that_grafana_asks_for_is_exposed_and_every_name_is_shown(tools: Any) -> None:
    """The board in examples/ asks for names that `/metrics` has, and shows all that it has."""
    names = exposed(tools)
    asked: set[str] = set()
    board = json.loads(BOARD.read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            queries.append(variable["query"]["query"])
    for query in queries:
        uses = re.findall(r"((?:reticent|process)_\w+)(?:\{([^}]*)\})?", query)
        assert uses, query
        for name, labels in uses:
            assert name in names, query
            assert set(re.findall(r"(\w+)\s*(?:=|!=|=~)", labels)) <= {*names[name], "job"}, query
            asked.add(name)
    assert asked == set(names)


def test_the_figures_go_on_while_the_package_is_being_replaced(
    monkeypatch: pytest.MonkeyPatch, tools: Any
) -> None:
    """They are noted every second, in the task that also refreshes the keys: a failure would end both."""
    collector = Collector([Plan.from_toml(tools.usage())], open_store("memory:"))

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("reticent_collector.http.app.version", missing)
    collector._note()
    assert collector.health().version == version("reticent")


def test_workers_together() -> None:
    """Counts add up; of what each of them knows in full, the largest counts."""
    one = Health(
        "1.0", "lake:///l", 5.0, 10, 7, 1, {"late": 2}, 4, 1, 1.0, 9.0, 3, 70, 2, 50.0,
        (KeyTraffic("a", "", "ingest", True, 10, 7, 2, 1, 5, 1), KeyTraffic("b", "", "ingest", True)),
        commit_times=(1, 2, *(0,) * 12), commit_seconds=0.5,
        requests_of={"reports": RequestTimes([3, *[0] * 13], 0.003)},
        process={"process_resident_memory_bytes": 100.0, "process_cpu_seconds_total": 1.0},
    )  # fmt: skip
    two = Health(
        "1.0", "lake:///l", 3.0, 20, 14, 2, {"late": 1, "early": 3}, 8, 0, 2.0, 4.0, 6, 68, 1, 50.0,
        (KeyTraffic("c", "", "ingest", True, 1, 1), KeyTraffic("a", "", "ingest", True, 19, 13, 2, 0, 9, 0)),
        commit_times=(4, *(0,) * 13), commit_seconds=0.25,
        requests_of={"reports": RequestTimes([1, *[0] * 12, 2], 30.0)},
        process={"process_resident_memory_bytes": 200.0, "process_cpu_seconds_total": 2.0},
    )  # fmt: skip
    workers = {"0": decoded(encoded(one)), "1": decoded(encoded(two))}
    assert workers == {"0": one, "1": two}
    health = together(workers)
    assert health == Health(
        "1.0", "lake:///l", 5.0, 30, 21, 3, {"late": 3, "early": 3}, 12, 1, 2.0, 9.0, 9, 70, 3, 50.0,
        (KeyTraffic("a", "", "ingest", True, 29, 20, 4, 1, 14, 1), KeyTraffic("c", "", "ingest", True, 1, 1),
         KeyTraffic("b", "", "ingest", True)),
        workers=workers, commit_times=(5, 2, *(0,) * 12), commit_seconds=0.75,
        requests_of={"reports": RequestTimes([4, *[0] * 12, 2], 30.003)},
    )  # fmt: skip
    body, _ = render_metrics(Results(open_store("memory:")), health, "text/plain")
    lines = body.decode().splitlines()
    for line in (
        'reticent_accepted_total{worker="0"} 7.0',
        'reticent_accepted_total{worker="1"} 14.0',
        'reticent_rejected_total{code="late",worker="1"} 1.0',
        'reticent_key_reports_total{key="a",worker="0"} 7.0',
        'reticent_commit_duration_seconds_bucket{le="0.0025",worker="0"} 3.0',
        'reticent_commit_duration_seconds_bucket{le="+Inf",worker="1"} 4.0',
        'reticent_commit_duration_seconds_sum{worker="0"} 0.5',
        'reticent_request_duration_seconds_bucket{le="10.0",of="reports",worker="1"} 1.0',
        'reticent_request_duration_seconds_count{of="reports",worker="1"} 3.0',
        'process_resident_memory_bytes{worker="0"} 100.0',
        'process_cpu_seconds_total{worker="1"} 2.0',
    ):
        assert line in lines


def figures(page: str) -> dict[str, float]:
    return {
        sample.name + "".join(sample.labels.get(label, "") for label in ("plan", "of", "le")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def test_a_collector_shows_what_its_process_and_its_machine_have(
    start: Callable[..., Any], tools: Any, tmp_path: Path
) -> None:
    """Compared with what the system says of the process."""
    service = start(tools.usage().replace("[plan]", "[plan]\nexpires = 2031-05-01", 1))
    plan = service.plans[0]
    for report in tools.make_reports(plan, service.now(plan), 3):
        assert service.send(report).status == 202
    assert service.get("/nothing").status == 404
    page = figures(service.get("/metrics").body.decode())
    pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
    resident = pages * os.sysconf("SC_PAGE_SIZE")
    assert page["process_resident_memory_bytes"] == pytest.approx(resident, rel=0.2)
    assert page["process_start_time_seconds"] == pytest.approx(time.time(), abs=600)
    assert page["process_open_fds"] == pytest.approx(
        len(os.listdir(f"/proc/{service.process.pid}/fd")), abs=5
    )
    assert page["process_cpu_seconds_total"] > 0
    disk = os.statvfs(service.folder)
    assert page["reticent_disk_size_bytes"] == disk.f_blocks * disk.f_frsize
    assert 0 < page["reticent_disk_free_bytes"] <= page["reticent_disk_size_bytes"]
    assert page["process_resident_memory_bytes"] < page["reticent_memory_limit_bytes"]
    assert page[f"reticent_plan_expires_seconds{plan.name}"] == 1_935_360_000  # date --date 2031-05-01Z +%s
    assert page["reticent_request_duration_seconds_countreports"] == 3
    assert page["reticent_request_duration_seconds_countother"] == 1
    assert 0 < page["reticent_request_duration_seconds_sumreports"] < 30
    assert page["reticent_build_info"] == 1
    assert "reticent_certificate_expires_seconds" not in page


def test_the_limit_of_a_container_is_below_that_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(exposition, "CGROUP_LIMITS", (str(limit), str(tmp_path / "none")))
    machine = exposition.memory_limit()
    limit.write_text("max\n")
    assert exposition.memory_limit() == machine > 1 << 28
    limit.write_text("268435456\n")
    assert exposition.memory_limit() == 1 << 28


@pytest.mark.parametrize("days", [1, 10_000])  # in the certificate, a year has two digits before 2050
def test_the_end_of_a_certificate_is_read_as_openssl_reads_it(tmp_path: Path, days: int) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-days", str(days), "-subj", "/CN=x", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make, *files], capture_output=True, check=True)
    told = subprocess.run(
        ["openssl", "x509", "-enddate", "-noout", "-in", str(certificate)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ends = ssl.cert_time_to_seconds(told.strip().removeprefix("notAfter="))
    text = certificate.read_text()
    assert certificate_end(text) == ends == pytest.approx(time.time() + days * 86_400, abs=60)
    assert certificate_end("something before it\n" + text + text.lower()) == ends
    assert certificate_end("") == certificate_end(text[:200]) == 0


def test_a_certificate_that_is_loaded_again_has_a_new_end(tmp_path: Path, tools: Any) -> None:
    files = tools.make_certificate(tmp_path)
    collector = Collector([Plan.from_toml(tools.usage())], open_store("memory:"))
    server = make_server(collector, "127.0.0.1", 0, collector.limits, tuple(map(str, files)))
    first = collector.health().certificate_expires
    assert first == pytest.approx(time.time() + 2 * 86_400, abs=60)
    page = render_metrics(collector.results, collector.health(), "text/plain")[0].decode()
    assert figures(page)["reticent_certificate_expires_seconds"] == first
    collector.server_figures.certificate_expires = 0.0
    server.reload_tls()
    assert collector.health().certificate_expires == first
    collector.store.close()
