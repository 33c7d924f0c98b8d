"""Problem documents (RFC 9457): one format for everything that is refused."""

from __future__ import annotations

from http import HTTPStatus
from typing import Protocol

import msgspec

from reticent.reports import Verdict

CONTENT_TYPE = b"application/problem+json"
NO_SNIFFING = (b"x-content-type-options", b"nosniff")

STATUS_OF_VERDICT = {
    Verdict.MALFORMED: 400,
    Verdict.UNKNOWN_PLAN: 404,
    Verdict.VERSION_MISMATCH: 409,
    Verdict.LATE: 410,
    Verdict.EARLY: 425,
}

DETAILS = {
    "malformed": "The body is not exactly a report of this plan.",
    "unknown_plan": "This collector does not serve that plan.",
    "version_mismatch": "This collector serves other versions of that plan.",
    "late": "The round no longer takes reports.",
    "early": "The round has not begun; check the device's clock.",
    "unauthorized": "A key is needed: Authorization: Bearer KEY.",
    "forbidden": "This key may not do that.",
    "not_found": "There is nothing at this address.",
    "method_not_allowed": "This address does not take that method.",
    "bad_request": "The request cannot be understood.",
    "not_acceptable": "The answer cannot be given in that form.",
    "unsupported_media_type": "Send JSON, NDJSON or a packed batch, under its own type and not compressed.",
    "too_large": "The body or the batch is larger than this collector takes.",
    "timeout": "The body did not arrive in time.",
    "rate_limited": "This key sends more than it may; wait and send again.",
    "busy": "More is waiting than can be written; wait and send again.",
    "unavailable": "The store cannot be used just now. Send it again.",
    "internal": "Something went wrong here; it has been noted.",
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
    def headers(self) -> list[tuple[bytes, bytes]]:
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


class Answer(Protocol):
    """What is answered to a request without the application: a problem, or that reports are durable."""

    @property
    def status(self) -> int:
        """Of HTTP."""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """All of them."""

    @property
    def body(self) -> bytes:
        """JSON."""


def response_of(answer: Answer) -> bytes:
    """A response as bytes."""
    start = b"HTTP/1.1 %d %s" % (answer.status, HTTPStatus(answer.status).phrase.encode())
    return b"\r\n".join([start, *(b": ".join(header) for header in answer.headers), b"", answer.body])
