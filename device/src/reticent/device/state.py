"""
What a device keeps: one document, which the state file loads and saves (`schema`).

Everything here is frozen. An event makes another state (`engine`); what asks a state changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from reticent.frozen import frozen, replace
from reticent.times import round_at

if TYPE_CHECKING:
    from reticent.reports import Report

Consent = Literal["unset", "granted", "denied", "local"]
"""Not asked yet; yes; no; collect and show, but send nothing."""

CONSENTS: tuple[Consent, ...] = get_args(Consent)

ASKED = "asked"  # the reason of a pause that the person asked for
SILENT = "silent"  # of rounds in which the plan was refused or had expired; all other reasons are rules of the policy

Place = tuple[int, str]  # a round and a metric

_NONE: Mapping[Any, Any] = {}


def records(consent: Consent | None) -> bool:
    """Whether values are recorded and rounds answered."""
    return consent in ("granted", "local")


@frozen()
class StoredConsent:
    """What is known about consent."""

    choice: Consent | None  #: None: the person has not chosen
    chosen_at: int | None  #: Unix seconds
    questions: str  #: JSON: what a choice of granted or local was made for (`consent.questions_of`)
    in_force: Consent | None  #: What held last: the choice, or the program's default; None: a new file


@frozen()
class LossLimits:
    """The largest limits that were ever in force for a file, and whether its answers were ever sampled."""

    max_lifetime: float
    max_year: float
    sampled: bool


@frozen()
class Epoch:
    """A span of time with one secret."""

    number: int
    began_in: int  #: The round that was under way
    reason: str


@frozen()
class HeldPlan:
    """One version of the plan, as it is kept."""

    version: int
    fingerprint: bytes
    from_round: int
    window: int  #: Rounds of a window of sampled answers; 0: answers are remembered
    round_loss: float
    layout: str  #: JSON: each metric's name, its answer bits and the digest of its privacy parameters (hex)
    text: str

    @property
    def bits(self) -> list[tuple[str, int]]:
        """What the bits of a report belong to: each metric, and how many."""
        return [(str(name), int(count)) for name, count, _ in json.loads(self.layout)]


@frozen()
class Pause:
    """Rounds that are not answered, because nothing was recorded in some of their time."""

    from_round: int
    reason: str
    through_round: int | None  #: None: it lasts

    def overlaps(self, first: int, last: int) -> bool:
        """Whether it has one of these rounds."""
        return self.from_round <= last and (self.through_round is None or self.through_round >= first)

    @property
    def is_rule(self) -> bool:
        """Whether a rule of the policy is the reason."""
        return self.reason not in (ASKED, SILENT)


@frozen()
class HeldWindow:
    """A window that a device may answer, or has answered."""

    start: int  #: Unix seconds
    end: int  #: Unix seconds; the next one begins then or later
    loss: float  #: Bound on the loss of its report
    round: int | None  #: The round that was answered; None: none was


@frozen()
class KeptReport:
    """A report, and what became of it."""

    round: int
    version: int
    epoch: int
    id: bytes
    cohort: int | None
    asked: bytes | None
    bits: bytes
    segment: str  #: JSON
    checksum: bytes
    state: str  #: waiting, accepted, rejected, expired or local
    code: str  #: Why it was rejected
    told: int  #: 1 once its bytes may have left
    attempts: int
    next_try: float  #: Unix seconds
    closes: int  #: When the collector stops taking it, unix seconds

    def report(self, plan: str) -> Report:
        """The report itself, of a plan of this name."""
        from reticent.reports import Report  # loaded when there is one: a host waits for the first start

        segment = json.loads(self.segment)
        return Report(plan, self.version, self.round, self.id, self.bits, self.cohort, segment, self.asked)

    def is_intact(self, plan: str) -> bool:
        """Whether it is as it was written. A damaged one is never sent: its id may have gone out with other bits."""
        return self.checksum == checksum_of(self.report(plan))


def checksum_of(report: Report) -> bytes:
    """What tells a report that is damaged in the file."""
    from reticent.hashes import blake2b
    from reticent.reports import to_json

    return blake2b(to_json(report), digest_size=8).digest()


@frozen()
class Past:
    """Reports that are no longer listed one by one."""

    version: int
    epoch: int
    state: str
    reports: int  #: How many
    told: int  #: Of how many the bytes may have left
    first_round: int
    last_round: int


@frozen()
class HeldAnswers:
    """The remembered answers of one metric in one epoch under one set of privacy parameters, or a lost file."""

    metric: str  #: Empty for a state file that was lost
    digest: bytes
    epoch: int
    classes: str  #: JSON: which of them were used
    loss: float
    lifetime: float
    lost: int


@frozen()
class RunFacts:
    """What a running program knows beside what is kept."""

    consent: Consent = "unset"  #: In force, as this program last saw it
    silenced_by: tuple[str, ...] = ()  #: The rules that silence it, as they were last entered
    on_since: int | None = None  #: The round since which it is known to run
    refused: tuple[str, ...] = ()  #: Why its plan was not taken up
    answers: bool = True  #: Whether some plan is held that the policy allows: a refused one changes nothing


@frozen()
class DeviceState:
    """All that a device keeps. Mappings are in the order of their keys."""

    plan: str  #: Its name; a state serves one plan
    round_seconds: int
    secret: bytes
    epoch: int  #: 1 more after each `forget` and each lost file
    silent_through: int  #: No round up to this one is answered
    enrolled_from: int | None = None  #: The first full round after the first plan was taken up
    changed_in: int | None = None  #: The round in which the remembered answers last changed by plan
    consent: StoredConsent = StoredConsent(None, None, "", None)
    limits: LossLimits = LossLimits(0.0, 0.0, sampled=False)
    lost_year: float | None = None  #: What the sampled answers of a lost file can have told in a year
    lost_at: int | None = None  #: When it was found lost, unix seconds
    epochs: Mapping[int, Epoch] = _NONE
    plans: Mapping[int, HeldPlan] = _NONE  #: By version
    pauses: Mapping[tuple[int, str], Pause] = _NONE  #: By first round and reason
    presence: Mapping[int, int] = (
        _NONE  #: Rounds in which the program ran: the first of neighbours, and the last
    )
    windows: Mapping[int, HeldWindow] = _NONE  #: By start; they never overlap
    totals: Mapping[Place, str] = _NONE  #: Raw values of rounds that are not answered, exact: "3" or "1/2"
    reports: Mapping[int, KeptReport] = _NONE  #: By round
    past: Mapping[tuple[int, int, str], Past] = _NONE
    attempts: Mapping[str, tuple[int, float]] = _NONE  #: By outcome: how often, and when last (unix seconds)
    ledger: Mapping[tuple[str, bytes, int], HeldAnswers] = _NONE  #: By metric, digest and epoch
    notes: Mapping[str, int] = _NONE  #: What went wrong, by kind
    run: RunFacts = RunFacts()

    def __repr__(self) -> str:
        return f"DeviceState(plan={self.plan!r}, epoch={self.epoch})"

    def at(self, now: float) -> int:
        """The round under way at a time."""
        return round_at(now, self.round_seconds)

    def with_run(self, **changes: object) -> DeviceState:
        """The same, but for what the program knows."""
        return replace(self, run=replace(self.run, **changes))

    def noting(self, kind: str, count: int = 1) -> DeviceState:
        """With a fault counted."""
        return replace(self, notes={**self.notes, kind: self.notes.get(kind, 0) + count}) if count else self

    # Consent

    @property
    def records(self) -> bool:
        """Whether values are recorded and rounds answered, by what is in force."""
        return records(self.consent.in_force)

    @property
    def may_send(self) -> bool:
        """Whether what waits may be sent."""
        return self.consent.in_force == "granted" and not self.is_paused()

    # Pauses

    def is_paused(self, reason: str | None = None) -> bool:
        """Whether a pause lasts, for any reason or for this one."""
        return any(
            pause.through_round is None and reason in (None, pause.reason) for pause in self.pauses.values()
        )

    def is_paused_in(self, first: int, last: int, *, by_rule: bool = False) -> bool:
        """Whether a pause overlaps one of several rounds, for any reason or by a rule of the policy."""
        return any(
            pause.overlaps(first, last) and (pause.is_rule or not by_rule) for pause in self.pauses.values()
        )

    @property
    def silenced_by(self) -> tuple[str, ...]:
        """The rules of the policy for which a pause lasts."""
        lasting = (pause for pause in self.pauses.values() if pause.through_round is None)
        return tuple(sorted({pause.reason for pause in lasting if pause.is_rule}))

    # Plans

    @cached_property
    def newest(self) -> HeldPlan | None:
        """The newest version held."""
        return self.plans[max(self.plans)] if self.plans else None

    @cached_property
    def has_sampled(self) -> bool:
        """Whether some version held has sampled answers."""
        return any(held.window for held in self.plans.values())

    def held_in(self, number: int) -> HeldPlan | None:
        """The version held when a round began; for a round before the first plan, the first."""
        held = [held for held in self.plans.values() if held.from_round <= number]
        return held[-1] if held else next(iter(self.plans.values()), None)

    # Presence, windows, reports

    def was_present(self, first: int, last: int) -> bool:
        """Whether it is known that the program ran in all of these rounds."""
        return any(begin <= first and end >= last for begin, end in self.presence.items())

    def last_presence(self, number: int) -> int | None:
        """The last round up to this one in which the program ran."""
        return max(
            (min(end, number) for begin, end in self.presence.items() if begin <= number), default=None
        )

    @property
    def free_from(self) -> int:
        """When the latest window held ends, unix seconds: none that begins earlier is held any more."""
        return self.windows[max(self.windows)].end if self.windows else 0

    @property
    def waiting(self) -> list[KeptReport]:
        """What is still to be sent, oldest round first."""
        return [kept for kept in self.reports.values() if kept.state == "waiting"]
