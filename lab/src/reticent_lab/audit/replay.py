"""A client and the rules live the same lives; the first difference, and the shortest life found that leads to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from reticent_lab.audit.clients import AuditedClient
from reticent_lab.audit.lives import AuditLife, Event
from reticent_lab.rules import interpreter

MOST_TRIALS = 200
"""How many shorter lives are tried, at most."""


@dataclass(frozen=True)
class ByteDifference:
    """What a client did and what the rules say, after the last of these events."""

    life: str
    events: tuple[Event, ...]
    expected: dict[str, Any]
    observed: dict[str, Any]

    def lines(self) -> list[str]:
        """The life, an event on each line, and what differs."""
        shown = [
            "  ".join([str(event["at"]), event["do"], *(
                f"{name}={value!r}" for name, value in event.items() if name not in ("at", "do", "plan", "policy")
            )])
            for event in self.events
        ]  # fmt: skip
        return [*shown, f"expected: {self.expected}", f"observed: {self.observed}"]

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return asdict(self)


@dataclass
class Replay:
    """What came of all lives."""

    decided: bool
    lives: int = 0
    events: int = 0
    left_open: int = 0
    reports: int = 0
    difference: ByteDifference | None = None


def expected_of(life: AuditLife) -> list[tuple[Event, dict[str, Any]]]:
    """Each event as a client gets it, and what leaves a device then, as far as the rules say it."""
    state = interpreter.State(secrets_drawn=life.secret)
    rows: list[tuple[Event, dict[str, Any]]] = []
    for event in life.events:
        plan = {"plan_text": event["plan"]} if "plan" in event else {}
        if event["do"] != "open" and not state.is_open:
            continue
        try:
            seen = interpreter.act(state, {**event, **plan}, event["at"])
        except interpreter.LeftOpenError:  # the rest of this life would depend on the jitter of an attempt
            return rows
        secret = seen.get("secret")
        given = {} if secret is None else {"secret": interpreter.secret(secret).hex()}
        leaves = {"sent": seen["sent"]}
        if event["do"] == "report":
            leaves["result"] = seen.get("result")
        rows.append(({**event, **given}, leaves))
    return rows


def first_difference(
    client: AuditedClient, name: str, rows: Sequence[tuple[Event, dict[str, Any]]]
) -> tuple[ByteDifference | None, int]:
    """Where a client first differs from what is expected, and how many reports were compared."""
    reports = 0
    lived: list[Event] = []
    client.begin()
    for event, expected in rows:
        observed = client.act(event)
        observed = {name: observed.get(name) for name in expected} | {"sent": list(observed.get("sent", []))}
        lived.append({name: value for name, value in event.items() if name != "secret"})
        if observed != expected:
            return ByteDifference(name, tuple(lived), expected, observed), reports
        reports += len(expected["sent"])
    return None, reports


def shortened(client: AuditedClient, life: AuditLife, difference: ByteDifference) -> ByteDifference:
    """Leave out runs of events, then single ones, while a difference stays."""
    trials = 0
    size = len(difference.events) // 2
    while size:
        place = len(difference.events) - size
        while place > 0 and trials < MOST_TRIALS:
            events = difference.events[:place] + difference.events[place + size :]
            trials += 1
            shorter, _ = first_difference(client, life.name, expected_of(replace(life, events=events)))
            if shorter is not None:
                difference = shorter
            place = min(place - size, len(difference.events) - size)
        size //= 2
    return difference


def replay(
    client: AuditedClient, lives: Sequence[AuditLife], progress: Callable[[float, float], None]
) -> Replay:
    """Drive a client through lives until it differs."""
    if not client.begin():
        return Replay(decided=False)
    result = Replay(decided=True)
    for life in lives:
        rows = expected_of(life)
        difference, reports = first_difference(client, life.name, rows)
        result.lives += 1
        result.events += len(rows)
        result.left_open += len(life.events) - len(rows)
        result.reports += reports
        progress(result.lives, len(lives))
        if difference is not None:
            result.difference = shortened(client, life, difference)
            break
    return result
