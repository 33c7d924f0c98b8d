"""
Lives by chance: what no author of a life thought of, with the rows that the rules say.

    python -m spec.random_lives FIRST COUNT      the names of lives that the rules leave open are left out

A life is a function of its number. Programs start, are closed and killed, record, answer, send and fail; the person
chooses, pauses and forgets; plans, policies and rules change; the clock stands still, goes on, and jumps by days,
months and back; the file is damaged and deleted.
"""

from __future__ import annotations

import json
import sys
from random import Random
from typing import Any

from . import interpreter
from .lives import CONSENTS, DAY, HERE, LENGTH, PLANS, Event

SECRETS = 24  # drawn at most, by one life
FAMILIES = {
    "remembered": ("base", "base-changed", "base-2", "base-3", "more-2", "fewer-2", "two", "costlier-2", "less-flip-2",
                   "more-flip-2", "patient", "expires", "expires-later-2", "seven", "half-2"),
    "divided": ("divided", "divided-2", "divided-displaced-2", "divided-fewer-2", "divided-both-2", "both",
                "divided-1-of-both-2"),
    "sampled": ("sampled", "sampled-2", "sampled-both-2", "sampled-costlier-2", "sampled-14d-2", "sampled-14d",
                "sampled-week", "sampled-month", "sampled-month-28d-2", "remembered-2", "sampled-instead-2", "base"),
    "daily": ("daily", "sampled-daily", "sampled-daily-week"),
    "weekly": ("weekly", "weekly-more-2", "sampled-weekly"),
}  # fmt: skip
"""Plans with one length of rounds, between which a program changes."""
ANSWERS: tuple[dict[str, Any], ...] = (
    {"status": 503}, {"status": 429, "retry_after": 3600}, {"status": 400, "code": "malformed"}, {"status": 400},
    {"status": 409, "code": "late"}, {"status": 302}, {"drop": True}, {"status": 401, "code": "unauthorized"},
)  # fmt: skip
POLICIES: tuple[Any, ...] = (
    {}, {}, "unlimited", {"max_lifetime": 40}, {"max_lifetime": 3}, {"max_year": 20}, {"fewest_rounds": 2},
)  # fmt: skip


class Dice:
    """Makes the events of one life."""

    def __init__(self, number: int) -> None:
        self.source = Random(f"life {number}")
        self.plans = FAMILIES[self.source.choice(list(FAMILIES))]
        self.plan = self.source.choice(self.plans)
        self.default = self.source.choice(("unset", "granted", "granted", "granted", "local", "denied"))
        self.now = HERE * LENGTH + self.source.randrange(30 * DAY)
        self.length = interpreter.plan_of(PLANS[self.plan]).length
        self.is_open = False

    def next(self) -> Event:
        """The next event."""
        self.now += self._pause()
        event = self._while_open() if self.is_open else self._while_closed()
        if event["do"] in ("open", "close", "kill"):
            self.is_open = event["do"] == "open"
        return {"at": self.now, **event}

    def _pause(self) -> int:
        """Seconds until the next event: most are in the same round or a few rounds later."""
        kind = self.source.random()
        if kind < 0.25:
            return self.source.randrange(120)
        if kind < 0.85:
            return int(self.source.uniform(0.3, 2.2) * self.length)
        if kind < 0.93:
            return self.source.randrange(14 * DAY)
        if kind < 0.96:
            return self.source.randrange(500 * DAY)
        return -self.source.randrange(self.source.choice((600, 3 * self.length, 40 * DAY)))

    def _while_closed(self) -> Event:
        if self.source.random() < 0.1:
            return {"do": "damage", "how": self.source.choice(("truncate", "zeros", "flip"))}
        if self.source.random() < 0.03:
            return {"do": "delete"}
        if self.source.random() < 0.3:
            self.plan = self.source.choice(self.plans)
        event: Event = {"do": "open", "plan": self.plan, "consent": self.default}
        if self.source.random() < 0.4:
            event["policy"] = self.source.choice(POLICIES)
        if self.source.random() < 0.08:
            event["environment"] = self.source.sample(["DO_NOT_TRACK", "CI", "container"], 1)
        if self.source.random() < 0.1:
            event["ask_again"] = False
        return event

    def _while_open(self) -> Event:
        do = self.source.choices(
            ("flush", "add", "report", "consent", "pause", "resume", "forget", "close", "kill"),
            (34, 26, 6, 7, 3, 5, 3, 12, 4),
        )[0]
        event: Event = {"do": do}
        if do == "add":
            event["metric"] = self.source.choice(list(interpreter.plan_of(PLANS[self.plan]).metrics)).name
            event["amount"] = self.source.choice((0, 1, 4, 10, 25))
        if do == "flush" and self.source.random() < 0.35:
            event["answers"] = [self.source.choice(ANSWERS) for _ in range(self.source.choice((1, 1, 3)))]
        if do == "consent":
            event["choice"] = self.source.choice((*CONSENTS, "granted"))
        return event


def life(number: int, events: int = 24) -> list[dict[str, Any]] | None:
    """The rows of a life; none where the rules leave to a device what it does."""
    dice, state, rows = Dice(number), interpreter.State(), []
    before = ""
    for _ in range(events):
        event = dice.next()
        if event["do"] == "kill" and before == "add":  # what is in memory is lost or not
            event["do"] = "close"
        if event["do"] in ("damage", "delete") and (before == "kill" or state.kept.secret is None):
            continue
        known = {**event, "plan_text": PLANS[event["plan"]]} if "plan" in event else event
        try:
            state, then = interpreter.step(state, known, event["at"])
        except interpreter.LeftOpenError:
            continue
        rows.append({**event, "then": then} if then else event)
        before = event["do"]
        if state.secrets_drawn >= SECRETS:
            break
    return rows


def document(first: int, count: int) -> dict[str, Any]:
    """Lives in the form of transitions.json, from one number on."""
    lives = [{"name": f"random-{number}", "rows": life(number)} for number in range(first, first + count)]
    return {
        "secrets": [interpreter.secret(number).hex() for number in range(SECRETS)],
        "plans": PLANS,
        "lives": lives,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(int(sys.argv[1]), int(sys.argv[2]))))
