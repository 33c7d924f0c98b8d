"""A request as far as it has arrived, and the checks that make its head unambiguous."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from reticent.collector.ingest import Admission
from reticent.collector.limits import Limits
from reticent.collector.problems import Headers, ProblemError

if TYPE_CHECKING:
    from reticent.collector.asgi import Exchange

_HOST = re.compile(rb"[\w.~!$&'()*+,;=%:\[\]-]*", re.ASCII)
"""The characters of a host and a port (RFC 3986, section 3.2.2)."""
_PATH = re.compile(rb'/[!"$-~]*')
_ABSOLUTE = re.compile(rb'https?://([^/?#@]+)(/[!"$-~]*)?', re.IGNORECASE)


def _refused(detail: str) -> ProblemError:
    return ProblemError(400, "bad_request", detail)


HEAD_TOO_LARGE = ProblemError(431, "too_large", "The head of the request is too large.")
NO_HOST = _refused("A request needs exactly one Host header with a valid host.")
BAD_FRAMING = _refused("A body needs one Content-Length, or one Transfer-Encoding: chunked, not both.")
BAD_TARGET = _refused("The target of a request must be a path, or http:// with a host and a path.")
BAD_VERSION = _refused("The HTTP version must be 1.1 or 1.0.")


class Request:
    """A request as far as it has arrived."""

    __slots__ = (
        *("admission", "exchange", "expects", "headers", "is_complete", "is_report", "keep_alive", "method"),
        *("parts", "refusal", "size", "target", "version"),
    )

    def __init__(self) -> None:
        self.method = self.target = b""
        self.version = "1.1"
        self.headers: Headers = []
        self.parts: list[bytes] = []  # of the body, as long as they are not handed on
        self.size = 0  # bytes of the body so far
        self.expects = False  # whether the client waits for 100 Continue before it sends the body
        self.is_complete = False
        self.is_report = False
        self.keep_alive = True
        self.admission: Admission | None = None  # of a report whose key and type are in order
        self.exchange: Exchange | None = None
        self.refusal: ProblemError | None = None

    def problem(self, limits: Limits) -> ProblemError | None:
        """Why the head is refused: too large, or servers might read it in different ways."""
        sizes = (len(name) + len(value) + len(": \r\n") for name, value in self.headers)
        if len(self.target) + sum(sizes) > limits.head:
            return HEAD_TOO_LARGE
        if self.version not in ("1.0", "1.1"):
            return BAD_VERSION
        hosts, lengths, codings = (
            [value for name, value in self.headers if name == wanted]
            for wanted in (b"host", b"content-length", b"transfer-encoding")
        )
        # Before 1.1 a request may do without a host.
        if len(hosts) > 1 or not (hosts or self.version == "1.0") or not all(map(_HOST.fullmatch, hosts)):
            return NO_HOST
        if len(lengths) > 1 or not all(map(bytes.isdigit, lengths)):
            return BAD_FRAMING
        if codings and (
            lengths or self.version == "1.0" or [value.lower() for value in codings] != [b"chunked"]
        ):
            return BAD_FRAMING
        return None if self._take_target() else BAD_TARGET

    def _take_target(self) -> bool:
        """A path; `http://host/path`, whose host replaces the header's; `*` for OPTIONS (RFC 9112, 3.2)."""
        if self.method == b"CONNECT":
            return False
        if _PATH.fullmatch(self.target):
            return True
        absolute = _ABSOLUTE.fullmatch(self.target)
        if absolute is None or not _HOST.fullmatch(absolute[1]):
            return self.target == b"*" and self.method == b"OPTIONS"
        self.target = absolute[2] or b"/"
        others = [header for header in self.headers if header[0] != b"host"]
        self.headers = [(b"host", absolute[1]), *others]
        return True

    def head_without_upgrade(self) -> bytes:
        """The head again, without the header that offers another protocol."""
        lines = [b": ".join(header) for header in self.headers if header[0] != b"upgrade"]
        start = b"%s %s HTTP/%s" % (self.method, self.target, self.version.encode())
        return b"\r\n".join([start, *lines, b"", b""])
