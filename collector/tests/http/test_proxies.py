"""
The collector behind real proxies, with the configurations of deploy/proxy.

Whatever bytes a client sends, the proxy and the collector agree where each request ends: the collector answers
the requests that the proxy forwarded and no others, a request in a body is never carried out, and the answer to
one request never goes to another.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.shared.collectors import Service, make_certificate, make_reports, usage
from tests.shared.proxies import PROGRAMS, Front, Link, installed, proxy
from tests.shared.raw_requests import CHUNKED, DOUBTFUL, END, ROWS, statuses

from reticent.reports import Report, to_json, to_ndjson

MARKER = b"GET /readyz HTTP/1.1\r\nHost: marker\r\nConnection: close\r\n\r\n"
"""A request whose answer is like no other here."""
READY = b'{"status":"ready"}'


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module", params=PROGRAMS)
def front(
    request: pytest.FixtureRequest,
    start: Callable[..., Service],
    certificate: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Front]:
    """Each proxy, in front of a collector of its own."""
    if installed(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    service = start(usage(1), keys=("ingest", "reader"), options=("--behind-proxy",))
    with proxy(request.param, service.port, certificate, tmp_path_factory.mktemp(request.param)) as running:
        running.service = service  # type: ignore[attr-defined]
        yield running


def exchange(
    connection: socket.socket,
    *parts: bytes,
    pause: float = 0.0,
    patience: float = 30.0,
    closes_half: bool = False,
) -> bytes:
    """All that is answered to bytes, until the other side closes, or is silent for so many seconds."""
    received = b""
    with connection:
        with suppress(OSError):  # it may close before it has everything
            for place, part in enumerate(parts):
                if place and pause:
                    time.sleep(pause)
                connection.sendall(part)
            if closes_half:
                socket.socket.shutdown(connection, socket.SHUT_WR)  # of TLS there is no half
        connection.settimeout(patience)
        with suppress(OSError):
            while more := connection.recv(1 << 16):
                received += more
    return received


@dataclass(frozen=True)
class Sequence:
    """What a client sends on one connection; nothing in a body may be carried out."""

    name: str
    parts: tuple[bytes, ...]
    pause: float = 0.0
    patience: float = 30.0
    hides: bool = False
    """Whether each reading has the hidden request in a body."""
    closes_half: bool = False
    """Whether the client closes its half of the connection then, and still reads."""


def posted(lines: tuple[str, ...], body: bytes, path: str = "/v1/reports", method: str = "POST") -> bytes:
    start = f"{method} {path} HTTP/1.1"
    return "\r\n".join([start, "Host: x", *lines, "", ""]).encode("latin-1") + body


def sequences(key: str, report: bytes, added: bytes) -> Iterator[Sequence]:
    """Every sequence; what some of them hide is a whole request that adds a report."""
    authority = (f"Authorization: Bearer {key}", "Content-Type: application/json")
    hidden = posted((*authority, f"Content-Length: {len(added)}"), added)
    length, chunks = f"Content-Length: {len(hidden)}", b"%x\r\n%s\r\n" % (len(hidden), hidden) + END

    for text, status in ROWS:
        yield Sequence(f"{text!r} ({status}), at once", (text + MARKER,))
        yield Sequence(f"{text!r} ({status}), in turn", (text, MARKER), pause=0.05)
        yield Sequence(f"{text!r} ({status}), byte by byte", (*(bytes([byte]) for byte in text), MARKER))

    for name, case in DOUBTFUL.items():
        lines, instead = case(len(report))
        request = posted((*authority, *lines), instead or report)
        yield Sequence(name, (request + hidden, MARKER))

    def hides(name: str, *parts: bytes, pause: float = 0.0) -> Sequence:
        return Sequence(name, parts, pause, hides=True)

    for offer in ("h2c", "websocket", "foo"):
        upgrade = ("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {offer}", "HTTP2-Settings: AAMAAABkAAQ")
        for path in ("/healthz", "/v1/reports"):
            for framing, body in ((length, hidden), (CHUNKED, chunks)):
                offering = posted((*authority, *upgrade, framing), b"", path)
                yield hides(f"{offer} {path} {framing}, body later", offering, body, MARKER, pause=0.03)
                yield hides(f"{offer} {path} {framing}, at once", offering + body + MARKER)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)
    yield Sequence("h2c, and speaks it", (posted(upgrade, b"", "/healthz", "GET") + preface, MARKER))
    for method in ("GET", "HEAD", "POST", "OPTIONS", "DELETE"):
        for path in ("/healthz", "/v1/reports", "/nowhere"):
            yield hides(f"{method} {path}, a length", posted((length,), hidden, path, method), MARKER)
            yield hides(f"{method} {path}, chunks", posted((CHUNKED,), chunks, path, method), MARKER)
    for expects in ("100-continue", "100-Continue", "y 100-continue", "200-ok"):
        for path in ("/healthz", "/v1/reports", "/nowhere"):
            for lines in (authority, ()):
                expecting = posted((*lines, f"Expect: {expects}", length), b"", path)
                yield hides(f"Expect: {expects} {path} {len(lines)}, at once", expecting + hidden, MARKER)
                yield hides(f"Expect: {expects} {path} {len(lines)}", expecting, hidden, MARKER, pause=0.03)
    # An answer that comes before the body does, which is too large to be read ahead.
    start = b" " * 200_000
    early = posted((f"Content-Length: {len(start) + len(hidden)}",), start)
    yield hides("the answer comes first", early, hidden, MARKER, pause=0.05)
    early = posted((*authority, f"Content-Length: {len(start) + len(hidden)}"), start, "/nowhere")
    yield hides("the answer comes first, elsewhere", early, hidden, MARKER, pause=0.05)
    trailers = (
        b"0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nHost: y\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n"
    )
    yield Sequence("trailers that speak of framing", (posted((*authority, CHUNKED), trailers), MARKER))
    yield Sequence(
        "a length for the proxy, chunks for the collector (CL.TE)",
        (posted((*authority, f"Content-Length: {len(END + hidden)}", CHUNKED), END + hidden), MARKER),
    )
    smaller = b"%x\r\n%s\r\n" % (len(hidden), hidden) + END
    yield Sequence(
        "chunks for the proxy, a length for the collector (TE.CL)",
        (posted((*authority, "Content-Length: 4", CHUNKED), smaller), MARKER),
    )
    for odd in ("Transfer-Encoding:\tchunked", "Transfer-Encoding: chunked ", 'Transfer-Encoding: "chunked"',
                "Transfer-Encoding: chunked;q=1", "Transfer_Encoding: chunked", "Transfer-Encoding: ,chunked",
                "Content_Length: 4", "Content-Length: 04", "X: y\x00\r\nTransfer-Encoding: chunked"):  # fmt: skip
        yield Sequence(f"{odd!r}, chunks", (posted((*authority, odd), END + hidden), MARKER))
        yield Sequence(f"{odd!r} and a length", (posted((*authority, odd, length), hidden), MARKER))
    for framing, body in ((length, hidden), (CHUNKED, chunks)):
        whole, cut = posted((*authority, framing), body), posted((*authority, framing), body[:-5])
        yield Sequence(f"{framing}, breaks off", (cut,), patience=0.5, hides=True)
        yield Sequence(f"{framing}, breaks off and ends", (cut,), hides=True, closes_half=True)
        yield Sequence(f"{framing}, ends", (whole,), hides=True, closes_half=True)
        yield Sequence(f"{framing}, ends after another", (whole, MARKER), hides=True, closes_half=True)


def disagreements(links: list[Link]) -> list[str]:
    """Connections on which the collector saw other requests than the proxy sent, when nothing is under way."""
    wrong: list[str] = []
    for _ in range(100):
        wrong = [
            f"{link.forwarded} sent, {link.answered} answered"
            for link in links
            if link.answered > link.forwarded or (link.is_open and link.answered < link.forwarded)
        ]
        if not wrong:
            break
        time.sleep(0.05)
    return wrong


def test_a_proxy_and_the_collector_agree_on_every_request(front: Any) -> None:
    """Many at a time: the connections to the collector are shared, and go from one client to the next."""
    service, plan = front.service, front.service.plans[0]
    report, hidden = make_reports(plan, service.now(plan), 2, front.name)
    every = [
        (sequence, replace(hidden, id=bytes([place // 256, place % 256, *range(14)])))
        for place, sequence in enumerate(sequences(service.keys["ingest"], to_json(report), to_json(hidden)))
    ]

    def walk(sequence: Sequence, own: Report) -> tuple[bytes, bytes]:
        parts = [part.replace(identity(hidden), identity(own)) for part in sequence.parts]
        received = exchange(
            front.connect(),
            *parts,
            pause=sequence.pause,
            patience=sequence.patience,
            closes_half=sequence.closes_half,
        )
        return received, exchange(front.connect(), MARKER)

    with ThreadPoolExecutor(8) as clients:
        walked = list(clients.map(walk, *zip(*every, strict=True)))
    faults = disagreements(front.tap.links)
    for (sequence, _), (received, beside) in zip(every, walked, strict=True):
        if statuses(beside) != [200] or not beside.endswith(READY):
            faults.append(f"{sequence.name}: another client received {beside!r}")
        if READY in received and not received.endswith(READY):
            faults.append(f"{sequence.name}: the marker's answer is not the last: {received!r}")
        if sequence.hides and (
            b'"accepted"' in received or len(statuses(received)) > 1 + sequence.parts[-1].endswith(MARKER)
        ):
            faults.append(f"{sequence.name}: an answer to what is in the body: {received!r}")
    assert faults == []
    never = [own for sequence, own in every if sequence.hides]
    before = repeats(service)
    answer = service.post(to_ndjson(never), "application/x-ndjson", service.keys["ingest"])
    assert (answer.json["accepted"], repeats(service)) == (len(never), before), "one was carried out before"
    assert "internal-error" not in service.log


def test_a_head_that_came_before_has_a_body_of_its_own(front: Any) -> None:
    """The collector does not parse it again. Here the body comes later, and is a request."""
    service, plan = front.service, front.service.plans[0]
    report, hidden = map(to_json, make_reports(plan, service.now(plan), 2, f"{front.name} again"))
    authority = (f"Authorization: Bearer {service.keys['ingest']}", "Content-Type: application/json")
    body = posted((*authority, f"Content-Length: {len(hidden)}"), hidden)
    head = posted((*authority, f"Content-Length: {len(body)}"), b"")
    received = exchange(front.connect(), head + report.ljust(len(body)), head, body, MARKER, pause=0.1)
    assert statuses(received) == [202, 400, 200]
    assert disagreements(front.tap.links) == []


def identity(report: Report) -> bytes:
    """A report's id as it stands in its JSON."""
    return json.loads(to_json(report))["id"].encode()  # type: ignore[no-any-return]


def repeats(service: Any) -> int:
    """Reports that were there already when they came."""
    metrics = service.get("/metrics", service.keys["reader"]).body.decode()
    return int(float(re.search(r"^reticent_duplicate_total (\S+)$", metrics, re.MULTILINE)[1]))


CLIENT, FORGED = "127.0.0.9", "203.0.113.7"


def test_no_address_comes_through_or_is_kept_and_none_can_be_forged(front: Any) -> None:
    """The collector wants none: proxies hand on neither the client's own nor one that it claims."""
    service, plan = front.service, front.service.plans[0]
    body = to_json(make_reports(plan, service.now(plan), 1, "address")[0])
    claims = (
        *(f"{name}: {FORGED}" for name in ("X-Forwarded-For", "X-Real-IP", "x-forwarded-for")),
        f"Forwarded: for={FORGED};proto=http",
        "X-Forwarded-Proto: http",
        f"X-Forwarded-Host: {FORGED}",
        f"Authorization: Bearer {service.keys['ingest']}",
        "Content-Type: application/json",
        "Connection: close",
        f"Content-Length: {len(body)}",
    )
    assert statuses(exchange(front.connect(CLIENT), posted(claims, body))) == [202]
    assert statuses(exchange(front.connect(CLIENT), posted(claims, b"no report".ljust(len(body))))) == [400]
    spoken = f"PROXY TCP4 {FORGED} 127.0.0.1 1234 443\r\n".encode()
    assert statuses(exchange(front.connect(CLIENT), spoken + MARKER)) in ([400], [])
    front.tap.is_cut = True  # what a proxy says when there is no collector
    try:
        for link in front.tap.links:
            with suppress(OSError):
                link.end()
        assert statuses(exchange(front.connect(CLIENT), MARKER)) in ([502], [503])
    finally:
        front.tap.is_cut = False

    passed = b"".join(bytes(link.requests) for link in front.tap.links)
    assert body in passed
    assert b"x-forwarded-proto: http\r" not in passed.lower()
    kept = [file.read_bytes() for folder in (front.folder, service.folder) for file in folder.rglob("*")
            if file.is_file()]  # fmt: skip
    for address in (CLIENT, FORGED):
        assert address.encode() not in b"".join([passed, *kept])


# Two collectors, one of which fails


class Failing:
    """A collector that says it is ready, reads reports, and then closes the connection or refuses them."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self.reports = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            data = b""
            while b"\r\n\r\n" not in data:
                data += connection.recv(1 << 16)
            if not data.startswith(b"POST"):
                connection.sendall(OK)
                return
            head, _, body = data.partition(b"\r\n\r\n")
            length = int(re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
            while len(body) < length:
                body += connection.recv(1 << 16)
            self.reports += 1
            connection.sendall(self._answer)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy"


@pytest.mark.parametrize("answer", [None, b"", BUSY], ids=["is gone", "closes", "busy"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_reports_go_to_the_other_collector_when_one_fails(
    name: str,
    answer: bytes | None,
    start: Callable[..., Service],
    certificate: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    if installed(name) is None:
        pytest.skip(f"{name} is not installed")
    service = start(usage(1), keys=("ingest",), options=("--behind-proxy",))
    plan = service.plans[0]
    failing = Failing(answer or b"")
    if answer is None:
        failing.close()
    seen = []
    try:
        with proxy(name, service.port, certificate, tmp_path, failing.port) as front:
            for report in make_reports(plan, service.now(plan), 12, name):
                body = to_json(report)
                head = (
                    b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                    b"Authorization: Bearer %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
                    % (service.keys["ingest"].encode(), len(body))  # type: ignore[attr-defined]
                )
                seen += statuses(exchange(front.connect(), head + body))
    finally:
        if answer is not None:
            failing.close()
    assert answer is None or failing.reports > 0, "the proxy has tried it"
    if name == "caddy":  # it cannot send a body twice; the device sends again
        assert set(seen) <= {202, 502, 503}
    else:
        assert seen == [202] * 12
