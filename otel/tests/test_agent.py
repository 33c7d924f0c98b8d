"""
Programs in any language, by OTLP over HTTP: what the agent takes, refuses and counts once.

The requests are OTLP as the protocol's own messages write it, and as the real SDK is encoded by
OpenTelemetry's own encoder; the server is the real one on loopback.
"""

from __future__ import annotations

import gzip
import http.client
import json
import logging
import shutil
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from otel.tests.instrumented import HEAD
from tests.shared.state_files import what_is_in

from reticent.device import Policy
from reticent.errors import ParameterError
from reticent.plan import Plan
from reticent.testing import Sandbox, sandbox
from reticent_otel import Route
from reticent_otel.agent import MAX_BODY, MAX_PARTS, Agent
from reticent_otel.feed import Feed
from reticent_otel.routes import Routes, load_routes

FILES_SAVED = """
[metrics.files_saved]
kind = "mean"
max_value = 1000
epsilon = 1.0
flip = 0.2
"""
PLAN = Plan.from_toml(
    HEAD
    + """
[metrics.files_saved]
kind = "mean"
max_value = 1000
epsilon = 1.0

[metrics.open_files]
kind = "mean"
max_value = 50
epsilon = 1.0

[metrics.request_seconds]
kind = "mean"
unit = "second"
max_value = 3600
epsilon = 1.0

[metrics.slowest]
kind = "mean"
unit = "second"
max_value = 3600
epsilon = 1.0

[metrics.command]
kind = "choice"
labels = ["build", "test", "run"]
mechanism = "hadamard-bit"
epsilon = 1.0
"""
)

NOW = time.time_ns
PROTOBUF = {"Content-Type": "application/x-protobuf"}


class Machine:
    """A machine on which an agent runs, in front of the device of a sandbox."""

    def __init__(self, box: Sandbox, port: int) -> None:
        self.box = box
        self.port = port

    def post(
        self, body: bytes, headers: dict[str, str] = PROTOBUF, path: str = "/v1/metrics"
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def export(self, *metrics: dict[str, Any], program: str = "editor") -> dict[str, Any]:
        """Send metrics as a program does; returns what the device holds then."""
        assert self.post(request(*metrics, program=program).SerializeToString()) == (200, b"")
        return self.box.values()


@contextmanager
def machine(*routes: Route) -> Iterator[Machine]:
    with sandbox(PLAN, policy=Policy.unlimited()) as box:
        agent = Agent(Feed(box.device, Routes(PLAN, routes=routes)), port=0)
        thread = Thread(target=agent.run)
        thread.start()
        try:
            yield Machine(box, int(agent.address.rpartition(":")[2]))
        finally:
            agent.stop()
            thread.join()


def request(*metrics: dict[str, Any], program: str = "editor") -> ExportMetricsServiceRequest:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": program}}]}
    scopes = [{"scope": {"name": "meter"}, "metrics": list(metrics)}]
    tree = {"resourceMetrics": [{"resource": resource, "scopeMetrics": scopes}]}
    return json_format.ParseDict(tree, ExportMetricsServiceRequest())


def counter(
    name: str, value: float | dict[str, float], *, start: int = 0, delta: bool = False, monotonic: bool = True,
    unit: str = "",
) -> dict[str, Any]:  # fmt: skip
    """One number, or one for each value of the attribute `command`."""
    values = value if isinstance(value, dict) else {"": value}
    points = [
        {"asDouble": number, "startTimeUnixNano": start,
         "attributes": [{"key": "command", "value": {"stringValue": label}}] if label else []}
        for label, number in values.items()
    ]  # fmt: skip
    total = {"dataPoints": points, "aggregationTemporality": 1 if delta else 2, "isMonotonic": monotonic}
    return {"name": name, "unit": unit, "sum": total}


def gauge(name: str, *values: float) -> dict[str, Any]:
    return {"name": name, "gauge": {"dataPoints": [{"asDouble": value} for value in values]}}


def histogram(
    name: str, total: float, count: int, largest: float | None = None, *, start: int = 0, delta: bool = True
) -> dict[str, Any]:
    point: dict[str, Any] = {"sum": total, "count": count, "startTimeUnixNano": start}
    if largest is not None:
        point |= {"max": largest, "min": 0}
    return {
        "name": name, "unit": "s",
        "histogram": {"dataPoints": [point], "aggregationTemporality": 1 if delta else 2},
    }  # fmt: skip


# Counters


def test_increases_are_added() -> None:
    with machine() as it:
        assert it.export(counter("files.saved", 3, delta=True)) == {"files_saved": 3}
        assert it.export(counter("files.saved", 4, delta=True)) == {"files_saved": 7}


def test_a_running_total_counts_once() -> None:
    """A stream that began under the agent's eyes: its first total is an increase, then differences are."""
    with machine() as it:
        start = NOW()
        assert it.export(counter("files.saved", 3, start=start)) == {"files_saved": 3}
        assert it.export(counter("files.saved", 3, start=start)) == {"files_saved": 3}
        assert it.export(counter("files.saved", 10, start=start)) == {"files_saved": 10}


@pytest.mark.parametrize("start", [0, 1_000_000_000])
def test_what_may_have_been_counted_before_a_restart_of_the_agent_is_not_counted_again(start: int) -> None:
    with machine() as it:
        assert it.export(counter("files.saved", 300, start=start)) == {}
        assert it.export(counter("files.saved", 305, start=start)) == {"files_saved": 5}


def test_programs_and_attributes_have_totals_of_their_own() -> None:
    with machine() as it:
        start = NOW()
        assert it.export(counter("files.saved", {"a": 5, "b": 7}, start=start)) == {"files_saved": 12}
        again = counter("files.saved", {"a": 6}, start=start)
        assert it.export(again, program="other") == {"files_saved": 18}


def test_a_program_that_begins_again_counts_from_0() -> None:
    with machine() as it:
        start = NOW()
        it.export(counter("files.saved", 5, start=start))
        assert it.export(counter("files.saved", 2, start=start + 1)) == {"files_saved": 7}


def test_two_programs_that_send_as_one_are_not_counted_twice() -> None:
    """Told apart by their start; where they have none, the larger total alone moves."""
    with machine() as it:
        start = NOW()
        for total in (10, 11, 12):
            it.export(counter("files.saved", total, start=start))
            it.export(counter("files.saved", 2, start=start + 1))
        assert it.box.values() == {"files_saved": 14}
        for total in (10, 11):
            it.export(counter("open.files", total))
            it.export(counter("open.files", 2))
        assert it.box.values().get("open_files", 0) <= 18  # 9 + 9: never a whole total again


def test_streams_without_end_are_forgotten_and_never_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reticent_otel.agent._MOST_STREAMS", 3)
    with machine() as it:
        start = NOW()
        for _ in range(2):
            for number in range(4):  # one more than are remembered
                it.export(counter("files.saved", {str(number): 10}, start=start))
        assert it.box.values() == {"files_saved": 30}
        assert it.export(counter("files.saved", {"3": 11}, start=start)) == {"files_saved": 31}


def test_a_point_without_a_value_is_left_out() -> None:
    metric = counter("files.saved", 3, delta=True)
    metric["sum"]["dataPoints"][0]["flags"] = 1
    with machine() as it:
        assert it.export(metric) == {}


# Levels


def test_levels_replace() -> None:
    with machine() as it:
        assert it.export(counter("open.files", {"a": 5, "b": 4}, monotonic=False)) == {"open_files": 9}
        assert it.export(counter("open.files", 3, monotonic=False)) == {"open_files": 3}
        assert it.export(gauge("open.files", 2, 8, 4)) == {"open_files": 8}


def test_what_cannot_be_used_is_named_once_without_a_value(caplog: pytest.LogCaptureFixture) -> None:
    with machine() as it, caplog.at_level(logging.WARNING):
        for _ in range(2):
            it.export(
                counter("open.files", 4321, monotonic=False, delta=True), counter("unknown", 4321, delta=True)
            )
            it.export({"name": "files.saved", "summary": {"dataPoints": [{"sum": 4321, "count": 1}]}})
            it.export(counter("request.seconds", 4321, delta=True, unit="ms"))
        assert it.box.values() == {}
    assert [record.getMessage() for record in caplog.records] == [
        "reticent: instrument open.files is not used: an up-down counter must be exported as a running total",
        "reticent: instrument unknown is not used: plan app-usage has no metric for it",
        "reticent: instrument files.saved is not used: it is a summary",
        "reticent: instrument request.seconds is not used: its unit is 'ms', that of metric request_seconds is "
        "'second', and no scale is given",
    ]


# Routes


def test_the_parts_of_a_histogram() -> None:
    routes = [
        Route("http.duration", "request_seconds", take="mean"),
        Route("http.duration", "slowest", take="max"),
        Route("http.duration", "files_saved", take="count"),
        Route("http.duration", "open_files", scale="1/2"),
    ]
    with machine(*routes) as it:
        held = it.export(histogram("http.duration", 6, 3, 4))
        assert held == {"request_seconds": 2, "slowest": 4, "files_saved": 3, "open_files": 3}
        held = it.export(histogram("http.duration", 4, 1, 4), histogram("http.duration", 2, 2, 1))
        assert held == {"request_seconds": 2, "slowest": 4, "files_saved": 6, "open_files": 6}
        it.box.next_round()
        held = it.export(histogram("http.duration", 1, 1, 1))
        assert held == {"request_seconds": 1, "slowest": 1, "files_saved": 1, "open_files": Fraction(1, 2)}


@pytest.mark.parametrize(("part", "expected"), [("max", 2), ("mean", 1)])
def test_instruments_in_several_units_share_a_largest_value_and_a_mean(part: str, expected: int) -> None:
    """Half a second of one in milliseconds; two seconds and half a second of the other."""
    milliseconds = Route("page.load", "slowest", take=part, scale="1/1000")
    with machine(milliseconds, Route("request.time", "slowest", take=part, scale=1)) as it:
        values = it.export(histogram("page.load", 500, 1, 500), histogram("request.time", 2.5, 2, 2))
        assert values == {"slowest": expected}


def test_a_running_histogram_has_a_mean_and_no_largest_value(caplog: pytest.LogCaptureFixture) -> None:
    routes = [
        Route("http.duration", "slowest", take="max"),
        Route("http.duration", "request_seconds", take="mean"),
    ]
    with machine(*routes) as it, caplog.at_level(logging.WARNING):
        start = NOW()
        it.export(histogram("http.duration", 6, 3, 4, start=start, delta=False))
        assert it.export(histogram("http.duration", 16, 4, 10, start=start, delta=False)) == {
            "request_seconds": 4
        }
    (record,) = caplog.records
    assert "lack the maximum" in record.getMessage()


def test_a_running_histogram_that_falls_is_only_remembered() -> None:
    with machine(Route("http.duration", "request_seconds", take="mean")) as it:
        start = NOW()
        it.export(histogram("http.duration", 6, 3, start=start, delta=False))
        assert it.export(histogram("http.duration", 1, 1, start=start, delta=False)) == {"request_seconds": 2}
        assert it.export(histogram("http.duration", 11, 2, start=start, delta=False)) == {
            "request_seconds": 4
        }


def test_an_attribute_becomes_a_metric_or_a_choice() -> None:
    """Of several labels in one export the most used comes last, which is the one that a choice keeps."""
    routes = [
        Route("cli.runs", "files_saved", where={"command": "build"}),
        Route("cli.runs", "command", attribute="command"),
    ]
    with machine(*routes) as it:
        start = NOW()
        held = it.export(counter("cli.runs", {"build": 2, "run": 1, "test": 0}, start=start))
        assert (held["files_saved"], held["command"]) == (2, "build")
        held = it.export(counter("cli.runs", {"build": 2, "run": 2, "test": 0}, start=start))
        assert (held["files_saved"], held["command"]) == (2, "run")
        it.box.next_round()  # nothing was run since: nothing was chosen
        held = it.export(counter("cli.runs", {"build": 2, "run": 2, "test": 0}, start=start))
        assert "command" not in held


def test_a_file_of_routes(tmp_path: Path) -> None:
    file = tmp_path / "routes.toml"
    file.write_text(
        """
[[route]]
instrument = "http.duration"
metric = "slowest"
take = "max"
scale = 0.001

[[route]]
instrument = "cli.runs"
metric = "files_saved"
where = { command = "build" }
"""
    )
    routes = load_routes(file)
    assert [route.metric for route in routes] == ["slowest", "files_saved"]
    with machine(*routes) as it:
        assert it.export(histogram("http.duration", 5000, 2, 4000)) == {"slowest": 4}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("route = 3", "tables"),
        ("[[route]]\nmetric = 'slowest'", "route 1: expected instrument, metric"),
        ("[[route]]\ninstrument = 'a'\nmetric = 'slowest'\nteke = 'max'", "route 1"),
        ("[[route]]\ninstrument = 'a'\nmetric = 'slowest'\ntake = 'median'", "take: expected one of sum"),
        ("[[route]]\ninstrument = 'a'\nmetric = 'unheard-of'", "metric: expected a metric of plan app-usage"),
        ("[[route]]\ninstrument = 'a'\nmetric = 'slowest'\nscale = 'much'", "scale: expected a number > 0"),
        ("[[route]]\ninstrument = 'a'\nmetric = 'slowest'\nattribute = 'b'", "attribute: expected"),
        ("[[route]]\ninstrument = 'a'\nmetric = 'command'", "attribute: expected"),
        ("[[route]]\ninstrument = 'a'\nmetric = 'slowest'\nwhere = { a = 1 }", "a table of strings"),
        ("not toml", "a TOML file"),
    ],
)
def test_a_bad_route_is_named(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "routes.toml").write_text(text)
    with pytest.raises(ParameterError, match=expected):
        Routes(PLAN, routes=load_routes(tmp_path / "routes.toml"))


# Requests


def test_a_small_request_that_unpacks_to_a_large_one_takes_no_memory() -> None:
    bomb = gzip.compress(bytes(16 * MAX_BODY), mtime=0)
    assert len(bomb) < MAX_BODY // 32
    with machine() as it:
        tracemalloc.start()
        try:
            status, _ = it.post(bomb, PROTOBUF | {"Content-Encoding": "gzip"})
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert status == 413
    assert peak < 4 * MAX_BODY


def test_json_and_gzip_are_taken() -> None:
    message = request(counter("files.saved", 3, delta=True))
    with machine() as it:
        as_json = json_format.MessageToJson(message).encode()
        assert it.post(as_json, {"Content-Type": "application/json; charset=utf-8"}) == (200, b"{}")
        packed = gzip.compress(message.SerializeToString())
        assert it.post(packed, PROTOBUF | {"Content-Encoding": "gzip"}) == (200, b"")
        assert it.box.values() == {"files_saved": 6}


@pytest.mark.parametrize(
    ("status", "body", "headers", "path"),
    [
        (404, b"", PROTOBUF, "/v1/traces"),
        (403, b"", PROTOBUF | {"Origin": "https://example.org"}, "/v1/metrics"),
        (415, b"", {"Content-Type": "text/plain"}, "/v1/metrics"),
        (415, b"", PROTOBUF | {"Content-Encoding": "br"}, "/v1/metrics"),
        (413, bytes(MAX_BODY + 1), PROTOBUF, "/v1/metrics"),
        (
            413,
            gzip.compress(bytes(MAX_BODY + 1), mtime=0),
            PROTOBUF | {"Content-Encoding": "gzip"},
            "/v1/metrics",
        ),
        (400, b"\xff\xff", PROTOBUF, "/v1/metrics"),
        (400, b"{", {"Content-Type": "application/json"}, "/v1/metrics"),
        (400, b"\xff", {"Content-Type": "application/json"}, "/v1/metrics"),
        (400, b"not gzip", PROTOBUF | {"Content-Encoding": "gzip"}, "/v1/metrics"),
        (
            400,
            gzip.compress(b"cut short", mtime=0)[:-3],
            PROTOBUF | {"Content-Encoding": "gzip"},
            "/v1/metrics",
        ),
        (411, b"", PROTOBUF | {"Content-Length": "many"}, "/v1/metrics"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_requests_are_refused_and_the_next_is_taken(
    status: int, body: bytes, headers: dict[str, str], path: str
) -> None:
    with machine() as it:
        try:
            assert it.post(body, headers, path)[0] == status
        except (BrokenPipeError, ConnectionResetError):
            assert status == 413  # refused before all of it was sent
        assert it.export(counter("files.saved", 1, delta=True)) == {"files_saved": 1}


def test_of_a_request_that_is_cut_off_nothing_counts() -> None:
    """What arrived may be a message by itself: the program sends it again, and it would count twice."""
    first, second = (
        request(counter("files.saved", value, delta=True)).SerializeToString() for value in (3, 4)
    )
    with machine() as it:
        head = f"POST /v1/metrics HTTP/1.1\r\nHost: localhost\r\nContent-Type: {PROTOBUF['Content-Type']}\r\n"
        with socket.create_connection(("127.0.0.1", it.port), timeout=10) as connection:
            connection.sendall(f"{head}Content-Length: {len(first + second)}\r\n\r\n".encode() + first)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")
        assert it.box.values() == {}


def raw(port: int, message: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(message)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b""))


NODE = (  # the head of what @opentelemetry/exporter-metrics-otlp-proto 0.223 sends
    b"POST /v1/metrics HTTP/1.1\r\nUser-Agent: OTel-OTLP-Exporter-JavaScript/0.223.0\r\n"
    b"Content-Type: application/x-protobuf\r\nHost: 127.0.0.1:4318\r\nConnection: keep-alive\r\n"
)
SAVED = request(counter("files.saved", 3, delta=True)).SerializeToString()


def test_chunks_are_one_body_and_the_connection_goes_on() -> None:
    """Node's SDK streams its body; the next request follows on the same connection."""
    parts = [SAVED[:10], SAVED[10:30], SAVED[30:]]
    chunks = b"".join(b"%X\r\n%s\r\n" % (len(part), part) for part in parts)
    chunked = NODE + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0;last\r\nDigest: x\r\n\r\n"
    counted = NODE + b"Content-Length: %d\r\n\r\n%s" % (len(SAVED), SAVED)
    with machine() as it:
        assert raw(it.port, chunked + counted).count(b"HTTP/1.1 200 ") == 2
        assert it.box.values() == {"files_saved": 6}


@pytest.mark.parametrize(
    ("status", "rest"),
    {
        "two lengths": (400, b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        "another coding": (400, b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        "no length": (411, b"\r\n"),
        "a size that is no number": (400, b"Transfer-Encoding: chunked\r\n\r\n0x5\r\nhello\r\n0\r\n\r\n"),
        "a negative size": (400, b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"),
        "no size": (400, b"Transfer-Encoding: chunked\r\n\r\n\r\n"),
        "an endless line": (400, b"Transfer-Encoding: chunked\r\n\r\n1;" + 5000 * b"a"),
        "a bare newline": (400, b"Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n"),
        "a longer chunk than its size": (400, b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n"),
        "endless trailers": (400, b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + 50 * b"A: b\r\n"),
        "too much": (413, b"Transfer-Encoding: chunked\r\n\r\n%X\r\n" % (MAX_BODY + 1)),
        "cut off": (
            400,
            b"Transfer-Encoding: chunked\r\n\r\n%X\r\n%s\r\n" % (len(SAVED), SAVED),
        ),
    }.values(),
)
def test_chunks_that_could_be_read_in_two_ways_are_refused(status: int, rest: bytes) -> None:
    with machine() as it:
        assert raw(it.port, NODE + rest).startswith(b"HTTP/1.1 %d " % status)
        assert it.box.values() == {}


def test_chunks_together_are_bounded() -> None:
    chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    with machine() as it:
        with suppress(BrokenPipeError, ConnectionResetError):  # refused before all of it was sent
            answer = raw(it.port, NODE + b"Transfer-Encoding: chunked\r\n\r\n" + 5 * chunk)
            assert answer.startswith(b"HTTP/1.1 413 ")
        assert it.box.values() == {}


def a_lot(of: str) -> bytes:
    """An export of four megabytes, of nothing but empty parts."""

    def field(number: int, content: bytes) -> bytes:
        size = len(content)
        varint = bytearray()
        while size > 127:
            varint.append(size & 127 | 128)
            size >>= 7
        return bytes([number << 3 | 2, *varint, size]) + content

    empty = (MAX_BODY // 2 - 50) * bytes([1 << 3 | 2, 0])
    name = field(1, b"files.saved")
    layers = {
        "resources": lambda: empty,
        "scopes": lambda: field(1, (MAX_BODY // 2 - 50) * b"\x12\0"),
        "metrics": lambda: field(1, field(2, (MAX_BODY // 2 - 50) * b"\x12\0")),
        "points": lambda: field(1, field(2, field(2, name + field(7, empty)))),
        "attributes": lambda: field(
            1, field(2, field(2, name + field(7, field(1, (MAX_BODY // 2 - 50) * b"\x3a\0"))))
        ),
        "attributes of a resource": lambda: field(1, field(1, empty)),
    }
    return layers[of]()


@pytest.mark.parametrize(
    "of", ["resources", "scopes", "metrics", "points", "attributes", "attributes of a resource"]
)
def test_a_few_bytes_of_gzip_with_millions_of_parts_are_refused(of: str) -> None:
    bomb = gzip.compress(a_lot(of), mtime=0)
    assert len(bomb) < 10_000
    with machine() as it:
        assert it.post(bomb, PROTOBUF | {"Content-Encoding": "gzip"})[0] == 413
        assert it.export(counter("files.saved", 1, delta=True)) == {"files_saved": 1}


def test_as_many_parts_as_allowed_are_taken_and_one_more_is_refused() -> None:
    def points(count: int) -> bytes:
        metric = {"name": "files.saved", "sum": {"aggregationTemporality": 1, "isMonotonic": True}}
        message = request(metric)
        total = message.resource_metrics[0].scope_metrics[0].metrics[0].sum
        for _ in range(count):
            total.data_points.add()
        return message.SerializeToString()

    others = 4  # a resource with an attribute, a scope, a metric
    with machine() as it:
        assert it.post(points(MAX_PARTS - others))[0] == 200
        assert it.post(points(MAX_PARTS - others + 1))[0] == 413


def test_json_with_very_many_parts_is_refused() -> None:
    text = b'{"resourceMetrics":[' + b",".join(100_000 * [b"{}"]) + b"]}"
    with machine() as it:
        assert it.post(text, {"Content-Type": "application/json"})[0] == 413


def test_names_of_instruments_are_logged_short_and_printable(caplog: pytest.LogCaptureFixture) -> None:
    long, escape = "x" * 100_000, "\x1b]0;owned\x07\u202e\nreticent: all is well"
    with machine() as it, caplog.at_level(logging.WARNING):
        it.export(counter(long, 1, delta=True), counter(escape, 1, delta=True))
        it.export(counter("request.seconds", 1, delta=True, unit="u" * 100_000))
        it.export(*(counter(f"name{number}", 1, delta=True) for number in range(1000)))
    messages = [record.getMessage() for record in caplog.records]
    assert max(map(len, messages)) <= 400
    assert all(message.isprintable() for message in messages)
    assert len(messages) == 201
    assert messages[-1] == "reticent: further instruments are not used, and not named"


def test_what_was_recorded_can_be_seen_without_a_value() -> None:
    with machine() as it:
        it.export(counter("files.saved", 4711, delta=True), counter("unknown", 4711, delta=True))
        it.export(*(counter(f"name{number}", 1, delta=True) for number in range(1000)))
        connection = http.client.HTTPConnection("127.0.0.1", it.port, timeout=10)
        connection.request("GET", "/v1/recorded")
        text = connection.getresponse().read().decode()
        connection.close()
    shown = json.loads(text)
    assert "4711" not in text
    assert (shown["plan"], shown["consent"], shown["exports"]) == ("app-usage", "granted", 2)
    assert shown["instruments"]["files.saved"] == {"metrics": ["files_saved"], "points": 1, "problem": ""}
    assert "no metric for it" in shown["instruments"]["unknown"]["problem"]
    assert len(shown["instruments"]) == 200


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://example.org"}, {"Host": "example.org"}, {"Host": "example.org:4318"}, {"Host": ""}],
)
def test_web_pages_are_refused(method: str, headers: dict[str, str]) -> None:
    """Also one whose own name was made to point at this machine."""
    with machine() as it:
        connection = http.client.HTTPConnection("127.0.0.1", it.port, timeout=10)
        path = "/v1/recorded" if method == "GET" else "/v1/metrics"
        connection.request(method, path, SAVED if method == "POST" else None, PROTOBUF | headers)
        assert connection.getresponse().status == 403
        connection.close()
        assert it.box.values() == {}


@pytest.mark.parametrize("host", ["localhost:4318", "127.0.0.1", "[::1]:4318", "LOCALHOST"])
def test_programs_on_this_machine_may_call_it_by_its_names(host: str) -> None:
    with machine() as it:
        assert it.post(SAVED, PROTOBUF | {"Host": host})[0] == 200


def test_numbers_that_are_none_count_as_0() -> None:
    with machine() as it:
        start = NOW()
        for value in ("NaN", "Infinity", "-Infinity", "Infinity", "Infinity"):
            it.export(counter("open.files", value, start=start))  # type: ignore[arg-type]
        assert it.export(counter("files.saved", "NaN", delta=True))["files_saved"] == 0  # type: ignore[arg-type]


# The real SDK, and the process


def test_the_real_sdk_with_running_totals() -> None:
    with machine() as it:
        reader = InMemoryMetricReader()
        provider = MeterProvider([reader], shutdown_on_exit=False)
        saved = provider.get_meter("editor").create_counter("files.saved")
        for number in range(1, 4):
            saved.add(number, {"path": "diary.txt"})
            data = reader.get_metrics_data()
            assert data is not None
            assert it.post(encode_metrics(data).SerializeToString())[0] == 200
        provider.shutdown()
        assert it.box.values() == {"files_saved": 6}
        state = b"".join(path.read_bytes() for path in it.box.state.parent.iterdir() if path.is_file())
        assert b"diary" not in state


NODE_PROGRAM = """
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
const exporter = new OTLPMetricExporter({ url: process.argv[2] });
const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 60000 });
const provider = new MeterProvider({ readers: [reader] });
const saved = provider.getMeter("editor").createCounter("files.saved");
saved.add(3);
await provider.forceFlush();
saved.add(4);
await provider.shutdown();
"""


@pytest.mark.soak
def test_the_real_sdk_of_node(tmp_path: Path) -> None:
    """It is installed from the registry that npm is set up with; without one the test is skipped."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    packages = ["@opentelemetry/sdk-metrics", "@opentelemetry/exporter-metrics-otlp-proto"]
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path), *packages]
    installed = subprocess.run(install, capture_output=True, check=False, timeout=200)
    if installed.returncode:
        pytest.skip("npm cannot install the SDK here")
    program = tmp_path / "program.mjs"
    program.write_text(NODE_PROGRAM)
    with machine() as it:
        command = ["node", str(program), f"http://127.0.0.1:{it.port}/v1/metrics"]
        done = subprocess.run(command, capture_output=True, check=False, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert it.box.values() == {"files_saved": 7}


def wait_for(line: Callable[[], str], text: str) -> str:
    for _ in range(200):
        read = line()
        if text in read or not read:
            return read
    return ""


def test_the_command_takes_metrics_until_it_is_stopped(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(HEAD + FILES_SAVED)
    command = [sys.executable, "-m", "reticent", "agent", str(plan), "--state", str(tmp_path / "state"),
               "--port", "0", "--consent", "granted",
               "--policy", "silent_in_ci=false,silent_in_containers=false"]  # fmt: skip
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = wait_for(process.stderr.readline, "Listening on")
        port = int(line.rpartition(":")[2].split("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        body = request(counter("files.saved", 3, delta=True)).SerializeToString()
        connection.request("POST", "/v1/metrics", body, PROTOBUF)
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    status = [sys.executable, "-m", "reticent", "device", "status", str(tmp_path / "state"), "--json"]
    shown = json.loads(subprocess.run(status, capture_output=True, check=True, text=True).stdout)
    assert shown["plan"] == "app-usage"


def test_the_command_says_what_to_run_where_nobody_has_agreed(tmp_path: Path) -> None:
    """And hears of the choice that another process enters, without a restart."""
    plan, state = tmp_path / "plan.toml", tmp_path / "state"
    plan.write_text(HEAD.replace('round = "1h"', 'round = "1s"') + FILES_SAVED)
    reticent = [sys.executable, "-m", "reticent"]
    rules = ["--policy", "silent_in_ci=false,silent_in_containers=false,shortest_round=0"]
    command = [*reticent, "agent", str(plan), "--state", str(state), "--port", "0", *rules]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        shown = ""
        while "Listening on" not in shown:
            line = process.stderr.readline()
            assert line, shown
            shown += line
        assert "consent is unset" in shown
        to_run = shown.partition("run reticent ")[2].splitlines()[0].split()
        machine = Machine(None, int(line.rpartition(":")[2].split("/")[0]))  # type: ignore[arg-type]
        body = request(counter("files.saved", 3, delta=True)).SerializeToString()
        assert machine.post(body) == (200, b"")
        assert not state.exists()
        subprocess.run([*reticent, *to_run], check=True, capture_output=True)
        for _ in range(400):  # the round of the choice is not answered, and nothing is kept of it
            assert machine.post(body) == (200, b"")
            heard = any(int(value) >= 3 for value in what_is_in(state).totals.values())
            if heard:
                break
            time.sleep(0.05)
        assert heard
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
