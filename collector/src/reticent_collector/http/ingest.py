"""`POST /v1/reports`, as callbacks, for any server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from reticent.errors import StoreError
from reticent.reports import MAX_JSON, Verdict
from reticent_collector.http.access import Access
from reticent_collector.http.health import Traffic
from reticent_collector.http.limits import Limits
from reticent_collector.http.log import log_fault
from reticent_collector.http.problems import Acknowledgement, Headers, ProblemError, of_verdict
from reticent_collector.http.wire import Batch, Wire
from reticent_collector.http.writing import Committer, Done, QueueFullError
from reticent_collector.stores import Key, RoundKey

SENDERS = ("ingest", "admin")
JSON, NDJSON, PACKED = b"application/json", b"application/x-ndjson", b"application/vnd.reticent.packed"


class Admission(NamedTuple):
    """What a request's headers say, once they are in order."""

    kind: bytes
    key: Key | None
    readings: int  # how often keys had been read by then


ONE_ACCEPTED = Acknowledgement(b'{"accepted":1}')

Finish: TypeAlias = Callable[[Acknowledgement | ProblemError], None]
Single: TypeAlias = tuple[bytes, Key | None, Finish]  # a report as it came, its key, and its callback


class Intake(ABC):
    """
    Takes requests with reports: checks them, and answers once the fate of each report is known.

    `admit` checks the headers before the body is read; `take` starts with the whole body and calls `finish`, at once
    or later. Nothing is awaited, so a server needs no task per request.
    """

    def __init__(self, wire: Wire, access: Access, limits: Limits, clock: Callable[[], float]) -> None:
        self._wire = wire
        self._access = access
        self.limits = limits
        self._clock = clock
        self.refused: Counter[str] = Counter()
        self.traffic = Traffic()
        self.requests = 0

    def admit(self, headers: Headers) -> Admission:
        """
        Check key, type and size; raises `ProblemError`.

        Only a key in the header counts. Devices have no sessions, and a browser attaches its cookie to any request a
        page makes it send.
        """
        self.requests += 1
        key = self._access.key_of(headers)
        self.traffic.request(key)
        kind = b""
        try:
            for name, value in headers:
                if name == b"content-type":
                    kind = value if value == JSON else value.partition(b";")[0].strip().lower()
                elif name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
                    raise ProblemError(415, "unsupported_media_type")
                elif name == b"content-length" and (not value.isdigit() or int(value) > self.limits.body):
                    raise self.limits.too_large()
            if kind not in (JSON, NDJSON, PACKED):
                raise ProblemError(415, "unsupported_media_type")
            self._access.allow(key, SENDERS, headers)
        except ProblemError as problem:
            self._note(problem.code, key)
            raise
        return Admission(kind, key, self._access.readings)

    def admit_again(self, admission: Admission, headers: Headers) -> Admission:
        """Check a request whose headers were in order before; keys may have been revoked meanwhile."""
        if admission.readings != self._access.readings:
            return self.admit(headers)
        self.requests += 1
        if admission.key is not None:
            self.traffic.request(admission.key)
        return admission

    def take(self, admission: Admission, body: bytes, finish: Finish) -> None:
        """Take the reports in a body; `finish` is called once, perhaps later, in the same thread."""
        try:
            if admission.kind == JSON:
                self._take_one(body, admission.key, finish)
            else:
                self._take_batch(body, admission, finish)
        except ProblemError as problem:
            self._refuse(problem, admission.key, finish)
        except QueueFullError:
            self._refuse(ProblemError(503, "busy", retry_after=1), admission.key, finish)
        except Exception as error:  # the client gets an answer; what went wrong may quote the body
            log_fault("internal-error", error)
            self._refuse(ProblemError(500, "internal"), admission.key, finish)

    def _refuse(self, problem: ProblemError, key: Key | None, finish: Finish) -> None:
        self._note(problem.code, key)
        finish(problem)

    def _note(self, code: str, key: Key | None, count: int = 1) -> None:
        """Count a refusal, for the collector and for the key."""
        self.refused[code] += count
        self.traffic.refused(key, code, count)

    @abstractmethod
    def _take_one(self, body: bytes, key: Key | None, finish: Finish) -> None:
        """Take one report in JSON."""

    @abstractmethod
    def _take_batch(self, body: bytes, admission: Admission, finish: Finish) -> None:
        """Take lines of JSON, or a packed batch."""

    def _read_batch(self, body: bytes, admission: Admission) -> Batch:
        read = self._wire.lines if admission.kind == NDJSON else self._wire.packed
        batch = read(body, self._clock(), self.limits.batch)
        if batch is None:
            raise ProblemError(413, "too_large", f"A batch holds at most {self.limits.batch:,} reports.")
        if isinstance(batch, Verdict):
            raise of_verdict(batch)
        return batch


class Ingest(Intake):
    """Takes reports for a store: `finish` is called once they are durable, after the next commit."""

    def __init__(
        self, wire: Wire, committer: Committer, access: Access, limits: Limits, clock: Callable[[], float]
    ) -> None:
        super().__init__(wire, access, limits, clock)
        self._committer = committer
        committer.read = self._read_singles

    def _take_one(self, body: bytes, key: Key | None, finish: Finish) -> None:
        if len(body) > MAX_JSON:  # it would wait for the next commit unread, and take memory meanwhile
            raise of_verdict(Verdict.MALFORMED)
        if self._access.rate:
            self._access.spend(key, 1)
        self._committer.submit_one((body, key, finish))

    def _read_singles(self, singles: list[Single]) -> list[tuple[Mapping[RoundKey, list[bytes]], Done]]:
        """The records of single reports by round, with their callbacks; runs in the commit thread."""
        try:
            batch = self._wire.singles([body for body, _, _ in singles], self._clock())
        except Exception as error:  # each client gets an answer; what went wrong may quote a body
            log_fault("internal-error", error)
            return [({}, partial(self._answer, singles, ProblemError(500, "internal")))]
        parts: list[tuple[Mapping[RoundKey, list[bytes]], Done]] = []
        for key, records in batch.records.items():
            places = batch.places[key]
            chosen = singles if len(places) == len(singles) else [singles[place] for place in places]
            parts.append(({key: records}, partial(self._singles_done, chosen)))
        for place, verdict in batch.rejected:
            parts.append(({}, partial(self._answer, [singles[place]], of_verdict(verdict))))
        return parts

    def _singles_done(self, singles: list[Single], durable: bool | StoreError) -> None:
        if durable is True:
            keys = {key.id: key for _, key, _ in singles if key}
            for name, count in Counter(key.id for _, key, _ in singles if key).items() if keys else ():
                self.traffic.reports(keys[name], count)
            self._answer(singles, ONE_ACCEPTED)
        elif durable is False:
            self._answer(singles, of_verdict(Verdict.LATE))
        else:
            self._answer(singles, ProblemError(503, "unavailable", retry_after=5))

    def _answer(
        self, singles: list[Single], answer: Acknowledgement | ProblemError, durable: bool | StoreError = True
    ) -> None:
        """Give all of these one answer, whatever became of the commit."""
        for _, key, finish in singles:
            try:
                if isinstance(answer, ProblemError):
                    self._note(answer.code, key)
                finish(answer)
            except Exception as error:  # the clients after it get an answer all the same
                log_fault("answer-failed", error)

    def _take_batch(self, body: bytes, admission: Admission, finish: Finish) -> None:
        self._access.spend(admission.key, 0)  # checked before the batch is read
        batch = self._read_batch(body, admission)
        key, accepted = admission.key, batch.accepted
        self._access.spend(key, accepted)
        rejected = [{"index": place, "code": verdict.value} for place, verdict in batch.rejected]
        codes = Counter(verdict.value for _, verdict in batch.rejected)
        answer = Acknowledgement(msgspec.json.encode({"accepted": accepted, "rejected": rejected}))

        def done(durable: bool | StoreError) -> None:
            if durable is True:
                self.traffic.reports(key, accepted)
                for code, count in codes.items():
                    self._note(code, key, count)
                finish(answer)
            elif durable is False:
                text = "A round was sealed meanwhile; send the batch again."
                self._refuse(ProblemError(503, "busy", text, retry_after=1), key, finish)
            else:
                self._refuse(ProblemError(503, "unavailable", retry_after=5), key, finish)

        if accepted:
            self._committer.submit(batch.records, accepted, done)
        else:
            done(True)
