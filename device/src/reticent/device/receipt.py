"""
What a device has sent and how it is doing, for the person whose device it is.

Loaded with the device, so that `status` and `receipt` work where no file can be opened any more; words and
pages are loaded when they are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from reticent.claims import ANSWERED, NOT_COVERED, SPENT
from reticent.frozen import frozen
from reticent.losses import compose, printed

if TYPE_CHECKING:
    from reticent.device.ledger import Entry
    from reticent.device.state import Epoch, HeldWindow, Past
    from reticent.html import Safe

_NOTHING: Mapping[str, Any] = {}
_SHOWN = 12  # in a notebook so many of the latest reports are in sight; the earlier ones unfold


def round_in_words(start: float, end: float) -> str:
    """
    When a round was.

    >>> round_in_words(1_700_000_000, 1_700_021_600), round_in_words(1_699_920_000, 1_700_006_400)
    ('2023-11-14 22:13 to 2023-11-15 04:13 UTC', '2023-11-14')
    """
    try:
        first, last = (datetime.fromtimestamp(moment, UTC) for moment in (start, end))
    except (ValueError, OverflowError, OSError):  # a clock that is wrong by thousands of years
        return f"{start:.0f} to {end:.0f} s after 1970"
    if (first.hour, first.minute, first.second, end - start) == (0, 0, 0, 86_400):
        return f"{first:%Y-%m-%d}"
    return (
        f"{first:%Y-%m-%d %H:%M} to {last:{'%H:%M' if last.date() == first.date() else '%Y-%m-%d %H:%M'}} UTC"
    )


@frozen()
class Told:
    """One report: sent, waiting, or given up."""

    round: int
    version: int
    id: str  #: Hexadecimal
    epoch: int
    bits: Mapping[str, str]  #: The answer bits of each metric, as they were sent
    state: str
    """waiting, accepted, rejected, local (never sent), or expired (it may have arrived all the same)."""
    code: str = ""  #: Why the collector rejected it
    start: int | None = None  #: When its round began, unix seconds
    end: int | None = None  #: When its round ended, unix seconds

    @property
    def when(self) -> str:
        """When its round was, in words."""
        return "" if self.start is None or self.end is None else round_in_words(self.start, self.end)


@frozen()
class Receipt:
    """
    Every report of a device, and a bound on what they reveal together.

    A loss is ε in e^ε, by `reticent.claims.SPENT`: it compares this device with those
    whose rounded values repeat in the same pattern.
    """

    plan: str
    reports: tuple[Told, ...] = ()
    losses: tuple[Entry, ...] = ()
    epochs: tuple[Epoch, ...] = ()
    problem: str = ""  #: Why this receipt is empty although reports may have been sent
    windows: tuple[HeldWindow, ...] = ()  #: The windows of sampled answers that were held, answered or not
    earlier: tuple[Past, ...] = ()  #: Reports no longer listed one by one; their losses are counted
    owner: str = ""  #: Who answers for the plan
    questions: Mapping[str, str] = _NOTHING  #: What each metric asks, in words

    @property
    def total_loss(self) -> float:
        """Bound on the loss so far: the sum over metrics, digests, epochs and windows answered."""
        return compose([*(entry.loss for entry in self.losses), self.windows_loss])

    @property
    def windows_loss(self) -> float:
        """Bound on the loss of the windows that were answered, between any two histories."""
        return compose(window.loss for window in self.windows if window.round is not None)

    @property
    def total_lifetime(self) -> float:
        """Bound on the loss for life of what was asked so far; windows count once they are held."""
        of_windows = [window.loss for window in self.windows]
        return compose([*(entry.lifetime for entry in self.losses), *of_windows])

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "plan": self.plan,
            "reports": [{**vars(told), "bits": dict(told.bits)} for told in self.reports],
            "losses": [{**vars(entry), "digest": entry.digest.hex()} for entry in self.losses],
            "epochs": [dict(vars(epoch)) for epoch in self.epochs],
            "windows": [dict(vars(window)) for window in self.windows],
            "earlier": [dict(vars(past)) for past in self.earlier],
            "total_loss": self.total_loss,
            "total_lifetime": self.total_lifetime,
            "meaning": self._meaning,
            "owner": self.owner,
            "questions": dict(self.questions),
            "problem": self.problem,
        }

    @property
    def _title(self) -> str:
        here = sum(told.state == "local" for told in self.reports)
        here += sum(past.reports for past in self.earlier if past.state == "local")
        count = len(self.reports) + sum(past.reports for past in self.earlier) - here
        title = f"Receipt for plan {self.plan}: {count} {'report' if count == 1 else 'reports'}"
        stay = "stays" if here == 1 else "stay"
        return f"{title}, and {here} that {stay} on this device" if here else title

    @property
    def _meaning(self) -> str:
        held = [
            window for window in self.windows if window.loss
        ]  # under local consent a window loses nothing
        if not held:
            return SPENT.says(self.total_loss)
        answered = sum(window.round is not None for window in held)
        count = f"{answered:,} of the {len(held):,} {'window' if len(held) == 1 else 'windows'} it held"
        of_windows = f"This file answered {count}. {ANSWERED.says(self.windows_loss)}"
        remembered = compose(entry.loss for entry in self.losses)
        return of_windows + (f" {SPENT.says(remembered)}" if self.losses else "")

    def __str__(self) -> str:
        lines = [self._title]
        if self.problem:
            lines.append(f"  {self.problem}")
        if self.owner:
            lines.append(f"  asked by {self.owner}")
        lines += [f"  {name}: {words}" for name, words in self.questions.items()]
        lines += [f"  {words}" for words in map(_past, self.earlier)]
        for told in self.reports:
            bits = " ".join(f"{name}={bits}" for name, bits in told.bits.items())
            code = f" ({told.code})" if told.code else ""
            when = f" ({told.when})" if told.when else ""
            lines.append(f"  round {told.round}{when}  v{told.version}  {told.state}{code}  {bits}")
        lines.append("Privacy loss per metric (so far / maximum):")
        for entry in self.losses:
            answers = "answer" if entry.classes_seen == 1 else "answers"
            used = f"{entry.classes_seen} remembered {answers} used"
            seen = "all that it held" if entry.lost else used
            lines.append(
                f"  {_subject(entry)}, epoch {entry.epoch}: "
                f"{printed(entry.loss)} / {printed(entry.lifetime)}  ({seen})"
            )
        lines.append(f"  together: {printed(self.total_loss)} / {printed(self.total_lifetime)}")
        lines.append(self._meaning)
        lines += [
            f"Epoch {epoch.number} began in round {epoch.began_in}: {epoch.reason}" for epoch in self.epochs
        ]
        return printable([*lines, NOT_COVERED])

    def html(self) -> str:
        """As a standalone page that a program can open for its user: one file, no script, nothing loaded."""
        from reticent.html import cards, document, section, wide

        return document(
            self._title,
            [f"Asked by {self.owner}."] if self.owner else [],
            section("What is asked", cards((name, "", [words]) for name, words in self.questions.items())),
            section("What was sent, bit by bit, and its privacy loss", wide(self._repr_html_())),
        )

    def _repr_html_(self) -> Safe:
        from reticent.html import details, note, page, table

        latest, earlier = self.reports[-_SHOWN:], self.reports[:-_SHOWN]
        unfolding = f"{len(earlier)} earlier {'report' if len(earlier) == 1 else 'reports'}"
        together = printed(self.total_loss), printed(self.total_lifetime)
        losses = []
        for entry in self.losses:
            so_far, most = printed(entry.loss), printed(entry.lifetime)
            used = "all that it held" if entry.lost else entry.classes_seen
            losses.append([_subject(entry), entry.epoch, so_far, most, used])
        return page(
            *([note(self.problem)] if self.problem else []),
            *(note(words) for words in map(_past, self.earlier)),
            table(self._title, *_columns(latest)),
            *([details(unfolding, table(unfolding, *_columns(earlier)))] if earlier else []),
            table(
                "Privacy loss",
                ["metric", "epoch", "loss so far", "maximum", "remembered answers used"],
                losses,
                totals=[["together", "", *together, ""]],
            ),
            note(self._meaning),
            note(NOT_COVERED),
            *(
                note(f"Epoch {epoch.number} began in round {epoch.began_in}: {epoch.reason}")
                for epoch in self.epochs
            ),
        )


def _past(past: Past) -> str:
    rounds = f"rounds {past.first_round} to {past.last_round}"
    return (
        f"earlier, not listed: {past.reports:,} {past.state}, {rounds}, v{past.version}, epoch {past.epoch}"
    )


def _subject(entry: Entry) -> str:
    return "a lost state file" if entry.lost else entry.metric


def _columns(reports: Sequence[Told]) -> tuple[list[str], list[list[object]]]:
    """A table of reports with a column per metric, blank where a version did not ask about it."""
    metrics = list(dict.fromkeys(name for told in reports for name in told.bits))
    rows: list[list[object]] = [
        [
            told.when or told.round,
            f"v{told.version}",
            told.state + (f" ({told.code})" if told.code else ""),
            *(told.bits.get(name, "") for name in metrics),
        ]
        for told in reports
    ]
    return ["round", "version", "state", *metrics], rows


_CONSENT = {
    "unset": "consent is unset: the person has not been asked, or has to be asked again",
    "denied": "consent is denied",
    "local": "consent is local: reports are made and shown here, and never sent",
}
_SILENCED = {
    "DO_NOT_TRACK": "DO_NOT_TRACK is set (policy: do_not_track)",
    "CI": "it runs on a build machine (policy: silent_in_ci)",
    "container": "it runs in a container (policy: silent_in_containers)",
}


@frozen()
class Status:
    """How a device is doing. Nothing in it is a value or derived from one, except `notes`, which stay here."""

    plan: str
    version: int | None = None  #: The newest version held
    paused: bool = False
    silenced_by: tuple[str, ...] = ()  #: The rules that silence the device: DO_NOT_TRACK, CI, container
    consent: str = "unset"  #: unset, granted, denied or local
    chosen_at: int | None = None  #: When the person chose, unix seconds; None: the program's default holds
    refused: tuple[str, ...] = ()  #: Why the plan it was given is not taken up, or not answered any more
    answers: bool = True  #: Whether a version is held that the policy allows
    epoch: int = 0
    current_round: int = -1
    answers_from: int | None = None  #: The first round this device answers by itself
    waiting: int = 0
    accepted: int = 0
    rejected: int = 0
    expired: int = 0
    notes: Mapping[str, int] = _NOTHING  #: What went wrong, by kind
    plan_expired: str = ""  #: The day on which the plan expired: 2027-11-01
    sends: bool | None = None  #: Whether it has an endpoint or a transport; None: unknown from its file
    attempts: Mapping[str, int] = _NOTHING  #: How often sending had each outcome, the latest first
    last_attempt: float | None = None  #: When a report was last tried to be sent, unix seconds
    last_outcome: str = ""  #: What came of that
    next_try: float | None = None  #: When the next report is to be sent, unix seconds
    next_answer: int | None = None
    """When the next answer is given if nothing changes, unix seconds; None: not within three years."""
    problem: str = ""  #: Why the state could not be read

    @property
    def active(self) -> bool:
        """Whether values are recorded and rounds answered."""
        agreed = self.consent in ("granted", "local")
        silent = self.paused or self.silenced_by or self.plan_expired or self.problem
        return self.answers and agreed and not silent

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        mappings = {"notes": dict(self.notes), "attempts": dict(self.attempts)}
        return {**vars(self), **mappings, "active": self.active}

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why nothing is sent, in words; empty: reports are sent when they are due."""
        return (
            *([] if self.consent == "granted" else [_CONSENT[self.consent]]),
            *(["paused"] if self.paused else []),
            *(_SILENCED.get(rule, rule) for rule in self.silenced_by),
            *(f"refused: {reason}" for reason in self.refused),
            *([f"the plan expired on {self.plan_expired}"] if self.plan_expired else []),
            *([self.problem] if self.problem else []),
        )

    def __str__(self) -> str:
        mood = "active" if self.active else "silent"
        mood = "local, sends nothing" if self.active and self.consent == "local" else mood
        version = "" if self.version is None else f" version {self.version}"
        lines = [f"Plan {self.plan}{version}: {mood}", *(f"  {reason}" for reason in self.reasons)]
        if self.chosen_at is not None:
            lines.append(f"  {self.consent} was chosen on {_time(self.chosen_at)}")
        lines.append(f"  round {self.current_round}, epoch {self.epoch}")
        if self.active and self.answers_from is not None and self.answers_from > self.current_round:
            lines.append(f"  answers from round {self.answers_from} on: what is recorded before is not kept")
        lines.append(
            f"  reports: {self.waiting} waiting, {self.accepted} accepted, {self.rejected} rejected, "
            f"{self.expired} expired"
        )
        if self.next_answer is not None:
            lines.append(f"  next answer: {_time(self.next_answer)}")
        if self.sends is False:
            lines.append("  no endpoint: reports are made on request and not sent")
        from reticent.device.transport import in_words

        if self.last_attempt is not None:
            lines.append(f"  last attempt to send: {_time(self.last_attempt)}, {in_words(self.last_outcome)}")
        if self.next_try is not None:
            lines.append(f"  next attempt: {_time(self.next_try)}")
        lines += [f"  attempts: {outcome} × {count}" for outcome, count in self.attempts.items()]
        lines += [f"  noted: {kind} × {count}" for kind, count in self.notes.items()]
        if any(kind.startswith(("unknown-", "not-a-number")) for kind in self.notes):
            lines.append(
                "  Hint: with debug=True, and in reticent.testing.sandbox, the call that does this raises"
            )
        return printable(lines)


_COMMANDS = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
"""What commands a terminal, or turns the order of letters around; a plan or a tag may hold it."""


def printable(lines: Iterable[str]) -> str:
    """Lines of text, with such characters in writing."""
    return "\n".join(re.sub(_COMMANDS, lambda one: f"\\u{ord(one[0]):04x}", line) for line in lines)


def _time(unix_seconds: float) -> str:
    try:
        return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):  # a clock that is wrong by thousands of years
        return f"{unix_seconds:.0f} s after 1970"
