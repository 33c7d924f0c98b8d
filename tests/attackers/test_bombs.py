"""Small requests that would be large: nesting, compression, declared sizes, empty lines, endless rounds."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.errors import PlanError
from reticent.plan import Plan
from reticent.reports import MAGIC, Verdict, record_width, to_json, to_packed
from reticent_collector.http import Limits, Wire

NDJSON, PACKED = "application/x-ndjson", "application/vnd.reticent.packed"
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def service(tools: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A process of its own with the limits that it has by itself, so that its memory can be looked at."""
    made = tools.Service(tmp_path_factory.mktemp("bombs"), tools.usage())
    made.start()
    yield made
    assert made.stop() == 0
    assert "internal-error" not in made.log
    assert "Traceback" not in made.log


def memory(service: Any, name: str) -> int:
    """The memory of a process in bytes: VmRSS now, VmHWM the most it ever had."""
    status = Path(f"/proc/{service.process.pid}/status")
    if not status.exists():
        pytest.skip("tells its memory on Linux only")
    (line,) = [line for line in status.read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024


def peak(service: Any) -> int:
    return memory(service, "VmHWM")


def report(service: Any, tools: Any) -> Any:
    plan = service.plans[0]
    return tools.make_reports(plan, service.now(plan), 1, "bomb")[0]


def deep(size: int) -> dict[str, bytes]:
    return {
        "lists": b"[" * size,
        "lists that end": b"[" * size + b"]" * size,
        "objects": b'{"a":' * size + b"1" + b"}" * size,
        "a segment": b'{"plan":"app-usage","segment":' + b'{"os":' * size + b"}" * size + b"}",
        "a report around it": b'{"plan":' * size,
    }


@pytest.mark.parametrize("name", deep(1))
@pytest.mark.parametrize("size", [500, 100_000])
def test_deep_json(service: Any, name: str, size: int) -> None:
    body = deep(size)[name]
    answer = service.post(body)
    assert (answer.status, answer.json["code"]) == (400, "malformed")
    answer = service.post(body, NDJSON)
    assert (answer.status, answer.json["accepted"]) == (202, 0)
    assert [each["code"] for each in answer.json["rejected"]] == ["malformed"]


def test_numbers_without_end(service: Any, tools: Any) -> None:
    """Python refuses to read more than 4,300 digits, other parsers take long; here the size comes first."""
    fields = json.loads(to_json(report(service, tools)))
    for number in (
        "9" * 5000,
        "-" + "9" * 5000,
        "1e999999999",
        "0." + "0" * 5000 + "1",
        "1" + "0" * 100_000,
        "NaN",
    ):
        for key in ("version", "round", "cohort"):
            text = json.dumps({**fields, key: 0}).replace(f'"{key}": 0', f'"{key}": {number}')
            answer = service.post(text.encode())
            assert (answer.status, answer.json["code"]) == (400, "malformed")


@pytest.mark.parametrize("kind", ["application/json", NDJSON, PACKED])
@pytest.mark.parametrize(
    "coding", ["gzip", "x-gzip", "deflate", "br", "zstd", "compress", "identity, gzip", "GZIP", "*"]
)
def test_nothing_is_decompressed(service: Any, coding: str, kind: str) -> None:
    """A kilobyte that becomes a megabyte is refused for what it calls itself, before it is looked at."""
    bomb = gzip.compress(b"\n" * MEGABYTE) if "zip" in coding.lower() else zlib.compress(b"\n" * MEGABYTE)
    assert len(bomb) < 2000
    answer = service.call("POST", "/v1/reports", bomb, {"Content-Type": kind, "Content-Encoding": coding})
    assert (answer.status, answer.json["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("kind", ["application/json", PACKED])
def test_compressed_without_saying_so_it_is_no_report(service: Any, kind: str) -> None:
    assert service.post(gzip.compress(b"\n" * MEGABYTE), kind).json["code"] == "malformed"


def header(name: bytes = b"app-usage", version: int = 1, width: int = 28, length: int | None = None) -> bytes:
    return (
        MAGIC + bytes([len(name) if length is None else length]) + name + struct.pack(">IH", version, width)
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (header(width=0) + b"x" * 100, "malformed"),
        (header(width=1) + b"x" * MEGABYTE, "malformed"),
        (header(width=24) + b"x" * 24, "malformed"),
        (header(width=65_535) + b"x" * 65_535, "malformed"),
        (header(width=65_535), "malformed"),
        (header(version=2**32 - 1), "version_mismatch"),
        (header(length=255), "malformed"),
        (header(b"", length=0), "malformed"),
        (header(b"a" * 255) + b"x" * 28, "unknown_plan"),
        (header(b"\xff" * 9) + b"x" * 28, "malformed"),
        (header() + b"x" * 27, "malformed"),
        (MAGIC[:-1] + b"\x02" + header()[6:], "malformed"),
        (MAGIC, "malformed"),
    ],
)
def test_a_batch_is_as_large_as_it_is_and_not_as_it_says(service: Any, body: bytes, code: str) -> None:
    assert service.post(body, PACKED).json["code"] == code


def test_more_than_a_request_may_hold(service: Any) -> None:
    """Lines and bytes beyond the limits are refused; up to them, empty lines are nothing at all."""
    limits = Limits()
    before = peak(service)
    for body, kind in (
        (b"\n" * (limits.batch + 1), NDJSON),
        (b"\n" * (limits.body - 1), NDJSON),
        (b"\r\n \t\r\n" * 2_000_000, NDJSON),
        (b"\n" * (limits.body + 1), NDJSON),
        (header() + bytes(28 * (limits.batch + 1)), PACKED),
    ):
        answer = service.post(body, kind)
        assert (answer.status, answer.json["code"]) == (413, "too_large")
    answer = service.post(b"\n" * limits.batch, NDJSON)
    assert (answer.status, answer.json) == (202, {"accepted": 0, "rejected": []})
    assert peak(service) - before < 8 * limits.body


def test_many_large_bodies_at_once(service: Any, tools: Any) -> None:
    """
    40 bodies that lack a byte: most are refused, an honest report is taken, memory stays within bounds, and it
    is given back when they leave. They took 660 MB that stayed.
    """
    limits = Limits()
    before, resident = peak(service), memory(service, "VmRSS")
    lines = ("POST /v1/reports HTTP/1.1", "Host: localhost", f"Content-Type: {PACKED}")
    head = "\r\n".join([*lines, f"Content-Length: {limits.body}", "", ""])
    body, connections = head.encode() + bytes(limits.body - 1), []
    for _ in range(40):
        connection = socket.create_connection((service.host, service.port), timeout=20)
        connection.sendall(body)
        connections.append(connection)
    assert service.send(report(service, tools)).status == 202
    refused = 0
    for connection in connections:
        connection.settimeout(0.2)
        try:
            refused += connection.recv(1 << 16).startswith(b"HTTP/1.1 503 ")
        except TimeoutError:
            continue
    for connection in connections:
        connection.close()
    assert refused >= 40 - limits.in_flight // limits.body
    assert peak(service) - before < 2 * limits.in_flight
    end = time.monotonic() + 20
    while (
        memory(service, "VmRSS") - resident > limits.in_flight / 2
    ):  # all of it stayed until a rare collection
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_full_batch_of_nonsense(service: Any) -> None:
    """As many refusals as a batch may have, said one by one; memory stays a few times what was sent."""
    limits = Limits()
    before = peak(service)
    answer = service.post(b"{}\n" * limits.batch, NDJSON)
    assert (answer.status, answer.json["accepted"], len(answer.json["rejected"])) == (202, 0, limits.batch)
    assert peak(service) - before < 16 * limits.body


def rounds_apart(plan: Plan, count: int, made: Any) -> bytes:
    """A packed batch in which every record is of a round of its own."""
    body = to_packed([made], plan)
    width = record_width(plan)
    rows = np.tile(np.frombuffer(body[-width:], dtype=np.uint8), (count, 1))
    rows[:, :8] = np.arange(count).astype(">u8").view(np.uint8).reshape(count, 8)
    return body[:-width] + rows.tobytes()


@pytest.mark.timeout(40)
def test_a_round_for_each_record_takes_no_longer(service: Any, tools: Any) -> None:
    """
    The rounds of a batch are told apart by sorting once; a pass over the batch for each of them took minutes,
    during which nobody else was answered. The time-out only keeps such a collector from being waited for.
    """
    limits, plan = Limits(), service.plans[0]
    body = rounds_apart(plan, limits.batch, report(service, tools))
    answer = service.post(body, PACKED)
    assert (answer.status, answer.json["accepted"]) == (202, 0)
    assert [each["index"] for each in answer.json["rejected"]] == list(range(limits.batch))
    assert {each["code"] for each in answer.json["rejected"]} == {"late"}


def test_records_of_many_rounds_are_told_apart(tools: Any) -> None:
    """Rounds in any order, some open and some not, some records broken: each goes where it belongs."""
    plan = Plan.from_toml(tools.usage(grace="5h"))
    now = 1_800_000_000.0
    first = plan.round_at(now)
    numbers = [first, first - 9, first - 2, first + 9, first, first - 5, first - 2, 2**60, first - 9, first]
    reports = [tools.make_reports(plan, number, 1, place)[0] for place, number in enumerate(numbers)]
    batch = Wire([plan]).packed(to_packed(reports, plan), now, 100)
    assert batch is not None
    assert not isinstance(batch, Verdict)
    width = record_width(plan) - 8
    kept = {key.round: b"".join(parts)[:16] for key, parts in batch.records.items()}
    assert {key.round: len(b"".join(parts)) // width for key, parts in batch.records.items()} == {
        first: 3, first - 2: 2, first - 5: 1,
    }  # fmt: skip
    assert kept == {number: reports[numbers.index(number)].id for number in (first, first - 2, first - 5)}
    assert batch.accepted == 6
    assert batch.rejected == [
        (1, Verdict.LATE), (3, Verdict.EARLY), (7, Verdict.MALFORMED), (8, Verdict.LATE),
    ]  # fmt: skip


PLAN = """[plan]
name = "a"
version = 1
round = "6h"
{}

[metrics.x]
kind = "mean"
max_value = {}
epsilon = {}
"""

PLANS = {
    "deep lists": PLAN.format("owner = " + "[" * 100_000, 1, 1),
    "deep lists that end": PLAN.format("owner = " + "[" * 300 + "]" * 300, 1, 1),
    "deep tables": PLAN.format("owner = " + "{a = " * 100_000, 1, 1),
    "a huge exponent": PLAN.format("", "1e999999999", 1),
    "a tiny exponent": PLAN.format("", 1, "1e-999999999"),
    "a huge exponent as text": PLAN.format("", '"1e99999999"', 1),
    "a long fraction": PLAN.format("", 1, f'"1/{"9" * 5000}"'),
    "too many digits": PLAN.format("", "9" * 5000, 1),
    "not a number": PLAN.format("", "nan", "inf"),
    "a long round": PLAN.format("", 1, 1).replace("6h", "9" * 5000 + "d"),
    "many tables": PLAN.format("", 1, 1) + "".join(f"[metrics.m{number}]\n" for number in range(5000)),
    "many lists of tables": PLAN.format("", 1, 1) + "[[x]]\n" * 20_000,
    "many keys": PLAN.format("".join(f"k{number} = 1\n" for number in range(3000)), 1, 1),
    "a long list": PLAN.format("", 1, 1) + "[groups.g]\nmax_total = 1\nmetrics = [" + '"x",' * 100_000 + "]",
    "too long": PLAN.format("#" * (1 << 21), 1, 1),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_is_a_bomb_is_a_plan_error(name: str) -> None:
    with pytest.raises(PlanError) as found:
        Plan.from_toml(PLANS[name])
    assert len(str(found.value.problems[0])) < 1000


UNQUOTABLE = {
    "deep dotted keys": PLAN.format("owner." + ".".join("a" * 2000) + " = 1", 1, 1),
    "thousands of hexadecimal digits": PLAN.format("", 1, "0x" + "f" * 5000),
}


@pytest.mark.parametrize("name", UNQUOTABLE)
def test_a_value_too_large_to_quote_is_a_plan_error(name: str) -> None:
    """A RecursionError and a ValueError come out of the message that would show the value."""
    with pytest.raises(PlanError):
        Plan.from_toml(UNQUOTABLE[name])


def test_a_key_of_many_parts_is_refused_before_it_is_read() -> None:
    """8,000 parts take a second, 20,000 a minute and two gigabytes; a plan's keys have three at most."""
    with pytest.raises(PlanError, match="parts"):
        Plan.from_toml(PLAN.format("x." + ".".join("a" * 500) + " = 1", 1, 1))
