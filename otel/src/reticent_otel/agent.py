"""
The agent: metrics of programs in any language, by OTLP over HTTP on loopback, into a device.

It runs on the user's own machine. What arrives stays there, as totals of the device; only the device's noisy answers
leave. `GET /v1/recorded` shows which instruments arrived and which metrics they feed, without any value: every user of
the machine can ask on loopback.
"""

from __future__ import annotations

import gzip
import json
import logging
import time
import zlib
from collections.abc import Callable, Iterator
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase, BytesIO
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, DataPointFlags

from reticent_otel.feed import DataPoint, Feed, Kind, Number, Reading, exact

if TYPE_CHECKING:
    from email.message import Message

    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

_logger = logging.getLogger(__name__)

MAX_BODY = 4 << 20  # bytes of a body, before and after decompression

MAX_PARTS = 20_000  # resources, scopes, metrics, data points and attributes of an export together

_MOST_STREAMS = 50_000
_LONGEST_LINE = 1000  # bytes of a line between chunks
_MOST_TRAILERS = 20
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

_PROTOBUF, _JSON = "application/x-protobuf", "application/json"


class Streams:
    """
    The increases of streams that are exported as running totals, as most SDKs do.

    An increase is the difference from the previous total. The first total of a stream counts if the stream began while
    the agent was running; part of an older stream may have been counted before a restart, so it is only remembered.
    So is a total that falls without a new start: two programs may send as one. At worst too little is counted,
    nothing twice.
    """

    def __init__(self) -> None:
        self._since = time.time_ns()
        self._totals: dict[bytes, list[Number]] = {}

    def increase(self, stream: bytes, start: int, totals: list[Number]) -> list[Number] | None:
        """By how much the totals of a stream have grown; None where they are only remembered."""
        key = _digest(stream + start.to_bytes(8, "big"))
        seen = self._totals.get(key)
        if seen is None and len(self._totals) >= _MOST_STREAMS:
            self._since = time.time_ns()  # what is forgotten here must not count as new later
            self._totals.clear()
        self._totals[key] = totals
        if seen is None:
            return totals if start >= self._since else None
        if totals[-1] < seen[-1]:
            return None
        return [exact(after - before) for after, before in zip(totals, seen, strict=True)]


def readings(request: ExportMetricsServiceRequest, streams: Streams) -> Iterator[Reading]:
    """The readings of an export, metric by metric; running totals become increases."""
    for resource in request.resource_metrics:
        program = _digest(resource.resource.SerializeToString(deterministic=True))
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                names = (scope.scope.name, scope.scope.version, metric.name, metric.unit)
                yield _reading(metric, _digest(program + repr(names).encode()), streams)


def _digest(text: bytes) -> bytes:
    """A short name for a long text: a stream's key is made once for each data point."""
    return blake2b(text, digest_size=16).digest()


def has_too_many_parts(request: ExportMetricsServiceRequest) -> bool:
    """Whether an export has more than `MAX_PARTS` parts: a few bytes of gzip can hold millions of empty ones."""
    return any(parts > MAX_PARTS for parts in accumulate(_parts(request)))


def _parts(request: ExportMetricsServiceRequest) -> Iterator[int]:
    """How many parts there are, list by list: each is counted before it is gone through."""
    yield len(request.resource_metrics)
    for resource in request.resource_metrics:
        yield len(resource.scope_metrics) + len(resource.resource.attributes)
        for scope in resource.scope_metrics:
            yield len(scope.metrics)
            for metric in scope.metrics:
                form = metric.WhichOneof("data")
                points = getattr(metric, form).data_points if form else ()
                yield len(points)
                yield from (len(point.attributes) for point in points)


def _reading(metric: Metric, stream: bytes, streams: Streams) -> Reading:
    form = metric.WhichOneof("data")
    data: Any = getattr(metric, form) if form else None
    temporality = getattr(data, "aggregation_temporality", None)
    is_delta = temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    kind = _kind(form, data, is_delta)
    if kind is Kind.UNUSABLE:
        problem = (
            "an up-down counter must be exported as a running total" if form == "sum" else "it is a summary"
        )
        return Reading(metric.name, metric.unit, kind, [], problem)
    points = []
    for point in data.data_points:
        if point.flags & DataPointFlags.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK:
            continue
        attributes = {pair.key: _plain(pair.value) for pair in point.attributes}
        totals = _totals(point, kind)
        if kind in (Kind.INCREASE, Kind.HISTOGRAM) and not is_delta:
            labels = repr(sorted(attributes.items())).encode()
            grown = streams.increase(stream + labels, point.start_time_unix_nano, totals)
            if grown is None:
                continue
            totals = grown
        has_largest = kind is Kind.HISTOGRAM and is_delta and point.HasField("max")
        largest = exact(point.max) if has_largest else None
        points.append(DataPoint(totals[0], int(totals[1]) if len(totals) > 1 else 0, largest, attributes))
    return Reading(metric.name, metric.unit, kind, points)


def _kind(form: str | None, data: Any, is_delta: bool) -> Kind:
    """What the numbers of a metric are."""
    if form == "gauge":
        return Kind.GAUGE
    if form in ("histogram", "exponential_histogram"):
        return Kind.HISTOGRAM
    if form != "sum":
        return Kind.UNUSABLE
    if data.is_monotonic:
        return Kind.INCREASE
    return Kind.UNUSABLE if is_delta else Kind.LEVEL


def _totals(point: Any, kind: Kind) -> list[Number]:
    """The number of a data point; of a histogram the sum and the count of what was recorded."""
    if kind is Kind.HISTOGRAM:
        return [exact(point.sum), exact(point.count)]
    return [exact(getattr(point, point.WhichOneof("value") or "as_int"))]


def _plain(value: Any) -> object:
    """The value of an attribute; lists and tables are not labels."""
    form = value.WhichOneof("value")
    plain = (
        getattr(value, form) if form in ("string_value", "int_value", "double_value", "bool_value") else ""
    )
    return str(plain).lower() if isinstance(plain, bool) else plain


class _RefusedError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Agent:
    """
    Takes `POST /v1/metrics` on 127.0.0.1 for a feed, and answers `GET /v1/recorded`.

    An `Origin` and a foreign `Host` are refused: no web page may write to a device or look at it.
    """

    def __init__(self, feed: Feed, port: int = 4318) -> None:
        self._feed = feed
        self._streams = Streams()
        self._one_at_a_time = Lock()
        agent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            server_version, sys_version = "reticent-agent", ""
            timeout = 30

            def do_POST(self) -> None:
                self._answer(agent._take)

            def do_GET(self) -> None:
                self._answer(agent._show)

            def _answer(self, act: Callable[[str, Message, BufferedIOBase], tuple[str, bytes]]) -> None:
                status, kind, body = 200, "", b""
                try:
                    _check_sender(self.headers)
                    kind, body = act(self.path, self.headers, self.rfile)
                except _RefusedError as refused:
                    status, body = refused.status, f"{refused}\n".encode()
                except Exception:  # what was raised may tell of a value: it goes no further
                    _logger.warning("reticent: an export was dropped")
                    status = 400
                if status != 200:
                    kind = "text/plain; charset=utf-8"
                    self.close_connection = True  # what is left of the body is not read
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Log nothing about requests."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True

    @property
    def address(self) -> str:
        """Where programs send their metrics: their OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def run(self) -> None:
        """Serve until `stop` is called from another thread."""
        self._server.serve_forever(poll_interval=0.1)

    def stop(self) -> None:
        """End `run`, and accept nothing more."""
        self._server.shutdown()
        self._server.server_close()

    def _show(self, path: str, headers: Message, body: BufferedIOBase) -> tuple[str, bytes]:
        """What was recorded: instruments and metrics, no values."""
        if path != "/v1/recorded":
            raise _RefusedError(404, "What was recorded is at /v1/recorded.")
        with self._one_at_a_time:
            return _JSON, json.dumps(self._feed.recorded(), indent=2).encode() + b"\n"

    def _take(self, path: str, headers: Message, body: BufferedIOBase) -> tuple[str, bytes]:
        """Hand an export to the feed; returns an empty ExportMetricsServiceResponse, or raises `_RefusedError`."""
        coding, kind = headers.get("Content-Encoding", "identity"), headers.get_content_type()
        if path != "/v1/metrics":
            raise _RefusedError(404, "Metrics go to /v1/metrics.")
        if kind not in (_PROTOBUF, _JSON) or coding not in ("gzip", "identity"):
            raise _RefusedError(415, f"Expected {_PROTOBUF} or {_JSON}, uncompressed or with gzip.")
        request = ExportMetricsServiceRequest()
        try:
            content = _body(headers, body)
            if coding == "gzip":
                content = gzip.GzipFile(fileobj=BytesIO(content)).read(MAX_BODY + 1)
            if len(content) > MAX_BODY:
                raise _too_large()
            if kind == _JSON:
                if content.count(b"{") > 4 * MAX_PARTS:  # read by Python, part by part
                    raise _too_large()
                json_format.Parse(content, request, ignore_unknown_fields=True)
            else:
                request.ParseFromString(content)
        except (DecodeError, json_format.ParseError, UnicodeDecodeError, EOFError, OSError, zlib.error):
            raise _RefusedError(400, "The body is not an ExportMetricsServiceRequest.") from None
        if has_too_many_parts(request):
            raise _too_large()
        with self._one_at_a_time:
            self._feed.take(list(readings(request, self._streams)))
        return kind, b"{}" if kind == _JSON else b""


def _too_large() -> _RefusedError:
    return _RefusedError(
        413, f"At most {MAX_BODY} bytes, before and after decompression, and {MAX_PARTS} parts."
    )


def _check_sender(headers: Message) -> None:
    """Refuse web pages, also those whose name was made to point at this machine."""
    host = headers.get("Host", "127.0.0.1")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if headers.get("Origin") or name.lower() not in _LOOPBACK:
        raise _RefusedError(403, "Requests from web pages are refused.")


def _body(headers: Message, body: BufferedIOBase) -> bytes:
    """The body of a request, with a length or in chunks; raises `_RefusedError`, `EOFError`."""
    length, coding = headers.get("Content-Length"), headers.get("Transfer-Encoding")
    if coding is not None:
        if coding.strip().lower() != "chunked" or length is not None:  # could be read in two ways
            raise _RefusedError(400, "Expected a Content-Length or Transfer-Encoding: chunked, not both.")
        return _chunks(body)
    if length is None or not (length.isascii() and length.isdigit()):
        raise _RefusedError(411, "Expected a Content-Length or Transfer-Encoding: chunked.")
    if int(length) > MAX_BODY:
        raise _too_large()
    return _exactly(body, int(length))


def _chunks(body: BufferedIOBase) -> bytes:
    content = bytearray()
    while size := _chunk_size(_line(body)):
        if len(content) + size > MAX_BODY:
            raise _too_large()
        content += _exactly(body, size)
        if _line(body):
            raise EOFError
    for _ in range(_MOST_TRAILERS):
        if not _line(body):
            return bytes(content)
    raise EOFError


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 8 or digits.strip(b"0123456789abcdefABCDEF"):
        raise EOFError
    return int(digits, 16)


def _line(body: BufferedIOBase) -> bytes:
    line = body.readline(_LONGEST_LINE)
    if not line.endswith(b"\r\n"):
        raise EOFError
    return line[:-2]


def _exactly(body: BufferedIOBase, size: int) -> bytes:
    """So many bytes: a part of a message may be a message too, and would count again with the retry."""
    content = body.read(size)
    if len(content) < size:
        raise EOFError
    return content
