"""What a device has told, for the person whose device it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from reticent.device.held import Layout
from reticent.device.ledger import Entry, Epoch
from reticent.device.outbox import Kept
from reticent.privacy import compose
from reticent.reports import Report


@dataclass(frozen=True, slots=True)
class Told:
    """One report: sent, waiting, or given up."""

    round: int
    version: int
    id: str
    """Hexadecimal."""
    epoch: int
    bits: Mapping[str, str]
    """The answer bits of each metric, as they were sent."""
    state: str
    """waiting, accepted, rejected or expired; an expired one may have arrived without an answer."""
    code: str = ""
    """Why the collector rejected it."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """
    Every report of a device, and what they may have told together.

    A loss is ε in e^ε: between two devices with the same pattern of changes, no sequence of answers
    is more than e^loss times as likely from one as from the other.
    """

    plan: str
    reports: tuple[Told, ...] = ()
    losses: tuple[Entry, ...] = ()
    epochs: tuple[Epoch, ...] = ()
    problem: str = ""
    """Why this receipt is empty although the device may have told something."""

    @property
    def total_loss(self) -> float:
        """Bound on everything told so far: the sum over metrics, digests and epochs."""
        return compose(entry.loss for entry in self.losses)

    @property
    def total_lifetime(self) -> float:
        """Bound on everything that what was asked so far can ever tell."""
        return compose(entry.lifetime for entry in self.losses)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {
            "plan": self.plan,
            "reports": [{**asdict(told), "bits": dict(told.bits)} for told in self.reports],
            "losses": [{**asdict(entry), "digest": entry.digest.hex()} for entry in self.losses],
            "epochs": [epoch._asdict() for epoch in self.epochs],
            "total_loss": self.total_loss,
            "total_lifetime": self.total_lifetime,
            "problem": self.problem,
        }

    def __str__(self) -> str:
        lines = [f"Receipt for plan {self.plan}: {_reports(len(self.reports))}"]
        if self.problem:
            lines.append(f"  {self.problem}")
        for told in self.reports:
            bits = " ".join(f"{name}={bits}" for name, bits in told.bits.items())
            code = f" ({told.code})" if told.code else ""
            lines.append(f"  round {told.round}  v{told.version}  {told.state}{code}  {bits}")
        lines.append("What they may have told (loss so far / at most, per metric):")
        for entry in self.losses:
            answers = "answer" if entry.classes_seen == 1 else "answers"
            used = f"{entry.classes_seen} remembered {answers} used"
            seen = "all, its file was lost" if entry.lost else used
            lines.append(
                f"  {entry.metric}, epoch {entry.epoch}: {entry.loss:.4g} / {entry.lifetime:.4g}  ({seen})"
            )
        lines.append(f"  together: {self.total_loss:.4g} / {self.total_lifetime:.4g}")
        lines += [
            f"Epoch {epoch.number} began in round {epoch.began_in}: {epoch.reason}" for epoch in self.epochs
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from reticent.device.html import receipt_html

        return receipt_html(self)


@dataclass(frozen=True, slots=True)
class Status:
    """How a device is doing. Nothing in it is a value or comes from one, except `notes`, which stay here."""

    plan: str
    version: int | None
    """The newest version held."""
    paused: bool
    do_not_track: bool
    refused: tuple[str, ...]
    """Why the plan is not answered."""
    epoch: int
    current_round: int
    answers_from: int | None
    """The first round this device answers by itself."""
    waiting: int = 0
    accepted: int = 0
    rejected: int = 0
    expired: int = 0
    notes: Mapping[str, int] = field(default_factory=dict)
    """What went wrong, by kind."""
    problem: str = ""
    """Why the state could not be read just now."""

    @property
    def active(self) -> bool:
        """Whether values are recorded and rounds answered."""
        return not (self.paused or self.do_not_track or self.refused or self.problem)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {**asdict(self), "notes": dict(self.notes), "active": self.active}

    def __str__(self) -> str:
        mood = "active" if self.active else "silent"
        reasons = [
            *(["paused"] if self.paused else []),
            *(["DO_NOT_TRACK is set"] if self.do_not_track else []),
            *self.refused,
            *([self.problem] if self.problem else []),
        ]
        lines = [f"Plan {self.plan} version {self.version}: {mood}", *(f"  {reason}" for reason in reasons)]
        lines.append(f"  round {self.current_round}, epoch {self.epoch}")
        lines.append(
            f"  reports: {self.waiting} waiting, {self.accepted} accepted, {self.rejected} rejected, "
            f"{self.expired} expired"
        )
        lines += [f"  noted: {kind} × {count}" for kind, count in self.notes.items()]
        return "\n".join(lines)


def told(kept: Kept, layout: Layout) -> Told:
    """The receipt of one report."""
    return Told(
        round=kept.report.round,
        version=kept.report.version,
        id=kept.report.id.hex(),
        epoch=kept.epoch,
        bits=bits_by_metric(kept.report, layout),
        state=kept.state,
        code=kept.code,
    )


def bits_by_metric(report: Report, layout: Layout) -> dict[str, str]:
    """The bits of a report, apart: "1", or "0110"."""
    result, place = {}, 0
    for name, bits, _ in layout:
        result[name] = "".join(str(report.bit(place + offset)) for offset in range(bits))
        place += bits
    return result


def _reports(count: int) -> str:
    return "1 report" if count == 1 else f"{count} reports"
