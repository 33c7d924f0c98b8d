"""Problem documents (RFC 9457): one format for everything that is refused."""

from __future__ import annotations

from http import HTTPStatus
from typing import NamedTuple, TypeAlias

import msgspec

from reticent.reports import Verdict

CONTENT_TYPE = b"application/problem+json"
Headers: TypeAlias = list[tuple[bytes, bytes]]
NO_SNIFFING = (b"x-content-type-options", b"nosniff")

STATUS_OF_VERDICT = {
    Verdict.MALFORMED: 400,
    Verdict.UNKNOWN_PLAN: 404,
    Verdict.VERSION_MISMATCH: 409,
    Verdict.LATE: 410,
    Verdict.EARLY: 425,
}

DETAILS = {
    "malformed": "The body is not a valid report of this plan.",
    "unknown_plan": "This collector does not serve that plan.",
    "version_mismatch": "This collector serves other versions of that plan.",
    "late": "The round no longer accepts reports.",
    "early": "The round has not started; check the device's clock.",
    "unauthorized": "A key is required: Authorization: Bearer KEY.",
    "forbidden": "This key does not allow that.",
    "not_found": "Nothing exists at this address.",
    "method_not_allowed": "This address does not support that method.",
    "bad_request": "The request is invalid.",
    "not_acceptable": "The response is not available in that format.",
    "unsupported_media_type": "Send JSON, NDJSON or a packed batch, uncompressed and with its media type.",
    "too_large": "The body or the batch is larger than this collector accepts.",
    "timeout": "The body did not arrive in time.",
    "rate_limited": "This key exceeds its rate; wait and send again.",
    "busy": "The queue is full; wait and send again.",
    "unavailable": "The store is temporarily unavailable. Send again.",
    "internal": "An internal error occurred; it is logged.",
}
"""Every code there is, and what it means."""


class ProblemError(Exception):
    """A refused request, with its status and its stable code."""

    def __init__(self, status: int, code: str, detail: str = "", retry_after: int | None = None) -> None:
        super().__init__(code)
        self.status = status
        self.code = code
        self.detail = detail or DETAILS[code]
        self.retry_after = retry_after

    @property
    def body(self) -> bytes:
        """The document."""
        return msgspec.json.encode(
            {
                "type": "about:blank",
                "title": HTTPStatus(self.status).phrase,
                "status": self.status,
                "code": self.code,
                "detail": self.detail,
            }
        )

    @property
    def headers(self) -> Headers:
        """The headers of the response."""
        headers = [(b"content-type", CONTENT_TYPE), (b"content-length", b"%d" % len(self.body))]
        if self.retry_after is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after))
        if self.status == 401:
            headers.append((b"www-authenticate", b'Bearer realm="reticent"'))
        return [*headers, NO_SNIFFING]


def of_verdict(verdict: Verdict) -> ProblemError:
    """The problem of a report that is not counted."""
    return ProblemError(STATUS_OF_VERDICT[verdict], verdict.value)


class Acknowledgement(NamedTuple):
    """202: durable, and counted once each. It is sent like a `ProblemError`."""

    body: bytes
    status: int = 202

    @property
    def headers(self) -> Headers:
        """The headers of the response."""
        length = (b"content-length", b"%d" % len(self.body))
        return [(b"content-type", b"application/json"), length, NO_SNIFFING]


def response_of(answer: Acknowledgement | ProblemError) -> bytes:
    """A response as bytes."""
    start = b"HTTP/1.1 %d %s" % (answer.status, HTTPStatus(answer.status).phrase.encode())
    return b"\r\n".join([start, *(b": ".join(header) for header in answer.headers), b"", answer.body])
