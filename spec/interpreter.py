"""
The rules of a device in plain Python: small, slow, and independent of every device.

    (state, event, now) -> (state, what can be seen of it)

It shares no code with reticent. Bits and ids come from the second implementation of the answers (`reference.py`).
`lives.py` has the lives that it is run on; transitions.json is what comes out, and transitions.md says how to read it:

    python -m spec.interpreter --write
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import tomllib
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal, getcontext
from fractions import Fraction
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from . import reference

getcontext().prec = 60

FILE = Path(__file__).with_name("transitions.json")
DAY = 86_400
YEAR = 365 * DAY
FIRST_MONDAY = 345_600  # windows are counted from here, unix seconds
DEFAULT_POLICY: dict[str, Any] = {
    "max_epsilon": 2, "max_window": 3, "max_lifetime": 12, "max_year": 54, "shortest_round": 3600,
    "shortest_window": 7 * DAY, "fewest_rounds": 28, "least_flip": 0.1,
}  # fmt: skip
FINAL_CODES = {
    "malformed", "bad_request", "unknown_plan", "not_acceptable", "version_mismatch", "late", "too_large",
    "unsupported_media_type",
}  # fmt: skip
"""The collector's own codes that are final; its others (early, rate_limited, unauthorized, …) may pass."""


def secret(number: int) -> bytes:
    """The secrets that the operating system gives in every life, in this order."""
    return hashlib.sha256(f"transitions {number}".encode()).digest()


# Plans


class LeftOpenError(ValueError):
    """The rules leave to a device what it does here, or it depends on a draw that they leave to it."""


@dataclass(frozen=True)
class Metric:
    """One question. Losses are known of means with one step, which have two remembered answers; infinite elsewhere."""

    name: str
    digest: str
    epsilon: float
    flip: float
    loss: Decimal  #: Of one remembered answer
    round_loss: Decimal  #: Of one round, after the flip
    top: Fraction  #: Of its range
    labels: tuple[str, ...]  #: Of a choice
    recorded: tuple[str, ...]  #: The names that a program records: its own, or those of the parts of a split
    pick: str  #: Which of several choices of a round counts: the first or the last
    has_absent: bool  #: Whether no value is told from 0


@dataclass(frozen=True)
class Plan:
    """A plan as a device needs it."""

    text: str
    name: str
    version: int
    length: int  #: Of a round, s
    grace: int  #: s
    expires: int | None  #: Unix seconds
    window: int  #: Rounds of a window of sampled answers; 0: answers are remembered
    metrics: tuple[Metric, ...]
    asked: int  #: How many of them a report answers
    round_loss: Decimal  #: Of one report
    fingerprint: str
    segments: tuple[tuple[str, tuple[str, ...]], ...]
    uses_cohort: bool

    def __deepcopy__(self, _: object) -> Plan:
        """Itself: copies of a state share their plans, which never change."""
        return self

    def first_of_window(self, number: int) -> int:
        """The first round of the window that a round is in."""
        first = self.round_from(FIRST_MONDAY)
        return first + (number - first) // self.window * self.window

    def closes(self, number: int) -> int:
        """When the collector stops taking reports of a round."""
        return self.start(number + 1) + self.grace

    def start(self, number: int) -> int:
        """When a round starts: weeks begin on Monday."""
        return number * self.length + reference.first_start(self.length)

    def round_at(self, now: float) -> int:
        """The round that is under way."""
        return int((now - reference.first_start(self.length)) // self.length)

    def round_from(self, time: int) -> int:
        """The first round that starts at a time or later."""
        return self.round_at(time - 1) + 1


@cache
def plan_of(text: str) -> Plan:
    """Read a plan."""
    toml = tomllib.loads(text, parse_float=Decimal)
    head, answers = toml["plan"], toml.get("answers", {})
    length = reference.seconds(head["round"])
    # The default grace: seven days or three rounds, whichever is longer.
    grace = reference.seconds(head["grace"]) if "grace" in head else max(7 * DAY, 3 * length)
    window = reference.seconds(answers["window"]) // length if "window" in answers else 0
    metrics = tuple(_metric(head["name"], name, toml) for name in toml["metrics"])
    losses = sorted((metric.round_loss for metric in metrics), reverse=True)
    asked = answers.get("metrics", len(metrics))
    day: date | None = head.get("expires")
    parts = [head["name"], head["version"], length, window, asked]
    return Plan(
        text=text,
        name=head["name"],
        version=head["version"],
        length=length,
        grace=grace,
        expires=int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) if day else None,
        window=window,
        metrics=metrics,
        asked=asked,
        round_loss=sum(losses[:asked], Decimal(0)),
        fingerprint=str([*parts, [(metric.name, metric.digest, metric.flip) for metric in metrics]]),
        segments=tuple((name, tuple(tags)) for name, tags in toml.get("segments", {}).items()),
        uses_cohort=reference.uses_cohort(toml),
    )


def _metric(plan: str, name: str, toml: dict[str, Any]) -> Metric:
    table = toml["metrics"][name]
    shape = reference.shape(plan, name, table, reference.is_sampled(toml))
    loss = round_loss = Decimal("Infinity")
    if len(shape.get("points", ())) == 2:
        low, flip, whole = Decimal(shape["low"]), Decimal(shape["flip"]), Decimal(reference.WHOLE)
        high = whole - low
        loss = (high / low).ln()
        round_loss = ((high * (whole - flip) + low * flip) / (low * (whole - flip) + high * flip)).ln()
    return Metric(
        name=name,
        digest=reference.digest_of(reference.digest_input(plan, name, toml)).hex(),
        epsilon=float(table["epsilon"]),
        flip=float(reference.number(table.get("flip", 0))),
        loss=loss,
        round_loss=round_loss,
        top=reference.number(table["max_value"])
        if table["kind"] == "split"
        else shape["points" if "points" in shape else "edges"][-1],
        labels=tuple(table.get("labels", ())) if table["kind"] == "choice" else (),
        recorded=tuple(f"{name}/{label}" for label in table["labels"])
        if table["kind"] == "split"
        else (name,),
        pick=table.get("pick", "last"),
        has_absent=reference.has_absent(table) and table["kind"] != "split",
    )


@cache
def sampled_answer(text: str, number: int, epoch: int, window: int, values: tuple[Any, ...]) -> Any:
    """The report of a window, by its number."""
    return reference.sampled_answer(text, secret(number), epoch, window, dict(values))


def picked_round(state: State, plan: Plan, first: int) -> int:
    """The round of a window that is answered."""
    return int(sampled_answer(plan.text, state.secret, state.epoch, _window_number(plan, first), ())["round"])


def _window_number(plan: Plan, first: int) -> int:
    return (first - plan.round_from(FIRST_MONDAY)) // plan.window


# State


@dataclass
class Report:
    """A report and what became of it."""

    round: int
    version: int
    body: str
    state: str  #: waiting, accepted, rejected, expired, local
    closes: int
    classes: dict[tuple[str, str, int], int]  #: Which remembered answer each question used
    window_loss: Decimal  #: Of a sampled report
    code: str = ""
    told: bool = False  #: Whether its bytes may have left
    attempts: int = 0
    not_before: float = 0.0  #: The next attempt is made at this time at the earliest …
    surely_from: float = 0.0  #: … and is due from this time on, whatever the jitter was


@dataclass
class Window:
    """A window that is held: it may be answered once."""

    start: int
    end: int
    loss: Decimal
    round: int | None = None


@dataclass
class Kept:
    """What is on the disk."""

    choice: str | None = None
    agreed: dict[str, Any] | None = None  #: The questions that a yes was given to
    in_force: str | None = None
    secret: int | None = None  #: Its number
    epoch: int = 0
    silent_through: int = -1
    enrolled_from: int | None = None
    changed_in: int | None = None
    plans: list[tuple[Plan, int]] = field(default_factory=list)  #: Versions, and their first rounds
    pauses: list[list[Any]] = field(default_factory=list)  #: First round, last round or None, reason
    windows: list[Window] = field(default_factory=list)
    totals: dict[int, dict[str, Fraction | str]] = field(default_factory=dict)
    reports: list[Report] = field(default_factory=list)
    held: dict[tuple[str, str, int], Decimal] = field(default_factory=dict)  #: Questions and lifetime losses
    used: dict[tuple[str, str, int], set[int]] = field(default_factory=dict)  #: Remembered answers used
    told: dict[tuple[str, str, int], set[int]] = field(default_factory=dict)  #: Those that may have left
    has_told: bool = False
    on: set[int] = field(default_factory=set)  #: Rounds in which the program ran
    lost: dict[str, Any] | None = None  #: After damage: the true loss, the limit, and when
    largest: dict[str, Any] = field(default_factory=lambda: {"max_lifetime": 0, "max_year": 0})
    """The largest limits that were ever in force; None: there was no limit."""


@dataclass
class State:
    """The disk, and the program that runs, if one does."""

    kept: Kept = field(default_factory=Kept)
    is_open: bool = False
    plan: Plan | None = None
    policy: dict[str, Any] = field(default_factory=dict)
    default: str = "unset"
    ask_again: bool = True
    silenced: list[str] = field(default_factory=list)
    segment: dict[str, str] = field(default_factory=dict)  #: The tags that the program gives
    is_unusable: bool = False
    is_refused: bool = False
    answers: bool = False  #: Whether a version is held that the policy allows
    on_since: int | None = None  #: The round since which this program is known to run
    is_damaged: bool = False
    secrets_drawn: int = 0

    @property
    def secret(self) -> int:
        """The number of the secret."""
        if self.kept.secret is None:
            raise ValueError("there is no secret")
        return self.kept.secret

    @property
    def epoch(self) -> int:
        """The epoch."""
        return self.kept.epoch


def records(state: State) -> bool:
    """Whether there is consent to record and answer."""
    return state.kept.in_force in ("granted", "local")


def is_active(state: State, now: float) -> bool:
    """Whether values are recorded and rounds answered."""
    return (
        state.is_open
        and not state.is_unusable
        and records(state)
        and state.answers
        and not is_paused(state)
        and not has_expired(state.plan, now)
    )


def has_expired(plan: Plan | None, now: float) -> bool:
    """A plan is not answered from 00:00 UTC of its date on."""
    return plan is not None and plan.expires is not None and now >= plan.expires


def current_round(state: State, now: float) -> int:
    """The round under way."""
    if state.plan is None:
        raise ValueError("no program runs")
    return state.plan.round_at(now)


def plan_for(state: State, number: int) -> Plan | None:
    """The version held when a round began; before the first one, that."""
    held = [plan for plan, first in state.kept.plans if first <= number]
    return held[-1] if held else state.kept.plans[0][0] if state.kept.plans else None


def is_paused(state: State, reason: str | None = None) -> bool:
    """Whether a pause lasts."""
    return any(last is None and reason in (None, why) for _, last, why in state.kept.pauses)


def is_paused_in(state: State, first: int, last: int, reason: str | None = None) -> bool:
    """Whether a pause overlaps one of these rounds."""
    return any(
        begin <= last and (end is None or end >= first) and reason in (None, why)
        for begin, end, why in state.kept.pauses
    )


# Presence: when the program ran, never what it measured


def note_presence(state: State, now: float) -> None:
    """The program runs now. Every call but a recorded value does this, so that a value changes nothing."""
    if not records(state) or state.kept.secret is None:
        state.on_since = None
        return
    current = current_round(state, now)
    begin = current if state.on_since is None else min(state.on_since, current)
    rounds = range(begin, current + 1)
    state.kept.on |= set(rounds)
    state.on_since = current
    if is_active(state, now):
        hold_windows(state, now)
    elif not is_paused(state):  # refused or expired: no values were recorded, so these rounds have no answer
        state.kept.pauses += [[number, number, "silent"] for number in rounds]


def is_in_whole_spell(state: State, number: int, now: float) -> bool:
    """
    Whether the last round up to this one in which the program ran can still be answered.

    A spell is that round and the rounds of the gap after it: it is answered whole or not at all.
    """
    rounds = [on for on in state.kept.on if on <= number]
    return bool(rounds) and is_answerable(state, max(rounds), now)


def is_answerable(state: State, number: int, now: float) -> bool:
    """Whether a round is the device's to answer and the collector still takes it."""
    kept, plan = state.kept, plan_for(state, number)
    return (
        plan is not None
        and kept.enrolled_from is not None
        and number >= kept.enrolled_from
        and number > kept.silent_through
        and not is_paused_in(state, number, number)
        and plan.closes(number) > now
    )


def oldest_open(state: State, now: float) -> int:
    """A round before which the collector takes none any more, whatever the version."""
    return min((plan.round_at(now - plan.grace) for plan, _ in state.kept.plans), default=0)


# Windows of sampled answers


def hold_windows(state: State, now: float) -> None:
    """Hold each window that has begun and can still be answered, if the year's budget has room for it."""
    kept, current = state.kept, current_round(state, now)
    if kept.enrolled_from is None:
        return
    earliest = max(kept.enrolled_from, kept.silent_through + 1)
    for number in range(max(earliest, oldest_open(state, now)), current + 1):
        plan = plan_for(state, number)
        if plan is None or not plan.window or plan.closes(number) <= now:
            continue
        first = plan.first_of_window(number)
        if (
            first >= earliest
            and may_hold(state, plan, first)
            and not is_paused_in(state, first, current, "rule")
        ):
            loss = Decimal(0) if kept.in_force == "local" else plan.round_loss
            start, end = plan.start(first), plan.start(first + plan.window)
            kept.windows.append(Window(start, end, loss))


def may_hold(state: State, plan: Plan, first: int) -> bool:
    """Whether a window follows the last one held, is whole under one length, and is within the year's budget."""
    kept, start = state.kept, plan.start(first)
    before = plan_for(state, first)
    if start < max((window.end for window in kept.windows), default=0):
        return False
    if before is None or before.window != plan.window:
        return False
    most = state.policy["max_year"]
    return most is None or plan.round_loss + lost_in_year(state, start) <= most


def lost_in_year(state: State, start: int) -> Decimal:
    """What the windows held lose that end in the 365 days before a time; a lost file counts as one of them."""
    kept = state.kept
    total = sum((window.loss for window in kept.windows if window.end > start - YEAR), Decimal(0))
    if kept.lost is not None and kept.lost["at"] > start - YEAR:
        total += Decimal("Infinity") if kept.lost["max_year"] is None else Decimal(kept.lost["max_year"])
    return total


# Plans and the policy


def take_up(state: State, now: float) -> None:
    """Hold the program's plan from the next round on; a refused one changes nothing."""
    kept = state.kept
    plan = state.plan
    if plan is None:
        return
    state.is_refused = False
    newest, newest_first = kept.plans[-1] if kept.plans else (None, 0)
    if newest is None or plan.version > newest.version:
        first = first_round(state, plan, now)
        known = {(name, digest) for name, digest, _ in kept.held}
        asks_new = any((name, digest) not in known for name, digest, _ in questions(state, plan))
        too_soon = asks_new and kept.changed_in is not None and is_too_soon(state, plan, first)
        if too_soon or is_beyond(state, plan):
            state.is_refused = True
        elif asks_more(state, plan):
            lapse(state, now)
            return
        else:
            if kept.secret is None:
                draw_secret(state)
            kept.plans.append((plan, first))
            kept.enrolled_from = first if kept.enrolled_from is None else kept.enrolled_from
            kept.changed_in = first if asks_new else kept.changed_in
    elif plan.fingerprint != newest.fingerprint:  # an older version, or another plan under this one
        state.is_refused = True
    else:
        kept.plans[-1] = (plan, newest_first)
    if not kept.plans:
        state.answers = False
        return
    newest = kept.plans[-1][0]
    beyond = is_beyond(state, newest)
    state.is_refused = state.is_refused or beyond
    state.answers = not beyond
    if not beyond and not questions(state, newest).keys() <= kept.held.keys():
        if asks_more(state, newest):
            lapse(state, now)
            return
        kept.held |= questions(state, newest)


def first_round(state: State, plan: Plan, now: float) -> int:
    """The first round that is answered under a new version: the next one; windows never overlap."""
    first = current_round(state, now) + 1
    if not state.kept.plans:
        return first
    newest, newest_first = state.kept.plans[-1]
    if newest.window or plan.window:
        first = max(first, newest_first)
        if newest.window != plan.window:
            end = max((window.end for window in state.kept.windows), default=0)
            first = max(first, plan.round_from(end))
    return first


def draw_secret(state: State) -> None:
    """A new secret from the operating system."""
    state.kept.secret = state.secrets_drawn
    state.secrets_drawn += 1


def questions(state: State, plan: Plan) -> dict[tuple[str, str, int], Decimal]:
    """The remembered answers that a plan asks this device for, with their losses for life."""
    kept = state.kept
    losses = {metric.name: 2 * metric.loss for metric in plan.metrics}
    names = set() if plan.window else set(losses)
    if names and plan.asked < len(names) and kept.secret is not None:
        names = set(reference.answer(plan.text, secret(kept.secret), kept.epoch, 0, {})["answers"])
    return {
        (metric.name, metric.digest, kept.epoch): losses[metric.name]
        for metric in plan.metrics
        if metric.name in names
    }


def lifetime_with(state: State, plan: Plan) -> Decimal:
    """
    What all remembered answers lose for life once a plan is held.

    The plan counts as the set of its metrics that costs most, or as what this device holds of them, if that is more.
    """
    kept = state.kept
    keys = {(metric.name, metric.digest, kept.epoch) for metric in plan.metrics}
    dearest = sum(
        sorted((2 * metric.loss for metric in plan.metrics), reverse=True)[: plan.asked], Decimal(0)
    )
    own = {key: loss for key, loss in kept.held.items() if key in keys}
    if kept.secret is not None:
        own |= questions(state, plan)
    others = sum((loss for key, loss in kept.held.items() if key not in keys), Decimal(0))
    lost = Decimal(0)
    if kept.lost is not None:
        limit = kept.lost["max_lifetime"]
        lost = Decimal("Infinity") if limit is None else Decimal(limit)
    return lost + others + max(dearest, sum(own.values(), Decimal(0)))


def is_too_soon(state: State, plan: Plan, first: int) -> bool:
    """Whether new questions come sooner than 28 rounds, or 28 days where that is shorter, after the last ones."""
    rounds = state.policy["fewest_rounds"]
    if rounds is None or state.kept.changed_in is None:
        return False
    return bool((first - state.kept.changed_in) * plan.length < min(rounds * plan.length, rounds * DAY))


def is_beyond(state: State, plan: Plan) -> bool:
    """Whether a plan asks for more than the policy allows."""
    limit = state.policy

    def above(figure: Any, name: str) -> bool:
        return limit[name] is not None and figure > limit[name]

    def below(figure: Any, name: str) -> bool:
        return limit[name] is not None and figure < limit[name]

    problems = [above(metric.epsilon, "max_epsilon") for metric in plan.metrics]
    problems += [below(plan.length, "shortest_round"), above(plan.round_loss, "max_window")]
    if plan.window:
        length = plan.window * plan.length
        windows_in_year = -(-(YEAR - 1) // length) + 1
        problems += [
            below(length, "shortest_window"),
            above(plan.round_loss * windows_in_year, "max_year"),
        ]
    else:
        problems += [below(metric.flip, "least_flip") for metric in plan.metrics]
        problems.append(above(lifetime_with(state, plan), "max_lifetime"))
    return any(problems)


# Consent


def agreement(state: State, plan: Plan) -> dict[str, Any]:
    """What a yes is given to."""
    losses = {metric.name: (metric.digest, metric.round_loss, metric.loss) for metric in plan.metrics}
    return {
        "epoch": state.kept.epoch, "window": plan.window * plan.length, "loss": plan.round_loss, "metrics": losses,
        "divided": not plan.window and plan.asked < len(plan.metrics),
    }  # fmt: skip


def asks_more(state: State, plan: Plan) -> bool:
    """Whether a plan asks for more than the person said yes to: another question, new answers, a higher loss."""
    kept = state.kept
    if kept.choice not in ("granted", "local") or not state.ask_again:
        return False
    asked, agreed = agreement(state, plan), kept.agreed
    if agreed is None or agreed["epoch"] != asked["epoch"] or bool(agreed["window"]) != bool(asked["window"]):
        return True
    if asked["window"] < agreed["window"] or asked["loss"] > agreed["loss"]:
        return True
    if agreed["divided"] and asked["metrics"].keys() != agreed["metrics"].keys():
        return True  # without the metrics that it was asked, a device is asked others
    for name, (digest, *losses) in asked["metrics"].items():
        known = agreed["metrics"].get(name)
        if known is None or known[0] != digest or any(a > b for a, b in zip(losses, known[1:], strict=True)):
            return True
    return False


def lapse(state: State, now: float) -> None:
    """The person has to be asked again."""
    state.kept.choice, state.kept.agreed = "unset", None
    bring_into_force(state, "unset", now)


def bring_into_force(state: State, consent: str, now: float) -> None:
    """Make a consent hold from now on. A round that touches a time without it is never answered."""
    kept, current = state.kept, current_round(state, now)
    before = kept.in_force
    kept.in_force = consent
    if before in (None, consent):
        return
    state.on_since = None
    if consent == "local" and before == "granted":
        # What waits stays here and is shown; the round under way is answered here too.
        for report in kept.reports:
            if report.state == "waiting":
                report.state = "expired" if report.told else "local"
        return
    kept.silent_through = max(kept.silent_through, current)
    kept.totals = {}
    if not records(state):
        state.answers = False
        state.is_refused = False
        wipe(state)


def wipe(state: State) -> None:
    """Keep the choice, and what has left with the secret it came from; where nothing has, nothing."""
    kept = state.kept
    drop_waiting(state)
    kept.reports = [report for report in kept.reports if report.told]
    told = {report.round for report in kept.reports}
    kept.windows = [window for window in kept.windows if window.round in told]
    kept.pauses = [pause for pause in kept.pauses if pause[1] is None]
    kept.on = set()
    if not kept.has_told:
        asked = [pause for pause in kept.pauses if pause[2] == "asked"]
        largest = kept.largest
        state.kept = Kept(
            choice=kept.choice, agreed=kept.agreed, in_force=kept.in_force, pauses=asked, largest=largest
        )


def drop_waiting(state: State) -> None:
    """Nothing that waits is sent any more. What may have left stays listed."""
    kept = state.kept
    kept.reports = [report for report in kept.reports if report.state != "waiting" or report.told]
    for report in kept.reports:
        if report.state == "waiting":
            report.state = "expired"


def begin(state: State, now: float) -> None:
    """Consent, environment and plan as they are now."""
    kept = state.kept
    for pause in list(kept.pauses):
        if pause[1] is None and pause[0] > current_round(state, now):
            # The clock went back. It covers this round too, and the one in which it began.
            if kept.secret is not None:
                kept.pauses.append([pause[0], pause[0], pause[2]])
            pause[0] = current_round(state, now)
    bring_into_force(state, kept.choice or state.default, now)
    kept = state.kept
    if not state.silenced:
        end_pause(state, now, "rule")
    elif kept.secret is not None:
        start_pause(state, now, "rule")
    if records(state) and not (state.silenced and kept.secret is None):
        take_up(state, now)


def start_pause(state: State, now: float, reason: str) -> None:
    """From the round under way on nothing is recorded, answered or sent."""
    if not is_paused(state, reason):
        state.kept.pauses.append([current_round(state, now), None, reason])
    state.kept.totals.pop(current_round(state, now), None)


def end_pause(state: State, now: float, reason: str) -> None:
    """The first round that is answered is the next one."""
    for pause in list(state.kept.pauses):
        if pause[1] is None and pause[2] == reason:
            pause[1] = max(pause[0], current_round(state, now))
            if state.kept.secret is None:  # before the first plan there are no rounds
                state.kept.pauses.remove(pause)


# Answers


def answer_due(state: State, now: float) -> None:
    """Answer every finished round that the collector still takes, whole spells only."""
    kept = state.kept
    if is_active(state, now) and kept.enrolled_from is not None:
        for number in range(max(kept.enrolled_from, oldest_open(state, now)), current_round(state, now)):
            is_due = is_answerable(state, number, now) and is_in_whole_spell(state, number, now)
            if is_due and is_asked(state, number, now):
                answer(state, number)
    for number in list(kept.totals):  # values that nobody will ask for
        plan = plan_for(state, number)
        if plan is None or plan.closes(number) <= now:
            del kept.totals[number]
    for report in kept.reports:
        if report.state == "waiting" and report.closes <= now:
            report.state = "expired"


def is_asked(state: State, number: int, now: float) -> bool:
    """Whether a round has no answer yet, and is the one of its window where answers are sampled."""
    kept, plan = state.kept, plan_for(state, number)
    if plan is None or has_expired(plan, now) or any(report.round == number for report in kept.reports):
        return False
    if not plan.window:
        return questions(state, plan).keys() <= kept.held.keys()
    first = plan.first_of_window(number)
    is_open = any(window.start == plan.start(first) and window.round is None for window in kept.windows)
    return (
        is_open
        and number < current_round(state, now)
        and first > kept.silent_through
        and not is_paused_in(state, first, number, "rule")
        and picked_round(state, plan, first) == number
    )


def answer(state: State, number: int) -> Report:
    """The report of a round: kept in the same moment as what it may tell."""
    kept, plan = state.kept, plan_for(state, number)
    if plan is None:
        raise ValueError("no plan is held")
    is_local = kept.in_force != "granted"
    values = {name: str(value) for name, value in kept.totals.pop(number, {}).items()}
    classes: dict[tuple[str, str, int], int] = {}
    window_loss = Decimal(0)
    if plan.window:
        first = plan.first_of_window(number)
        made = sampled_answer(
            plan.text, state.secret, kept.epoch, _window_number(plan, first), tuple(values.items())
        )
        window_loss = Decimal(0) if is_local else plan.round_loss
        for window in kept.windows:
            if window.start == plan.start(first):
                window.round = number
                window.loss = max(window.loss, window_loss)  # of what was answered, not of what was held
    else:
        made = reference.answer(plan.text, secret(state.secret), kept.epoch, number, values)
        for metric in plan.metrics:
            if metric.name in made["answers"]:
                classes[metric.name, metric.digest, kept.epoch] = made["answers"][metric.name]["class"]
        if not is_local:
            for question, used in classes.items():
                kept.used.setdefault(question, set()).add(used)
    fields = {"plan": plan.name, "version": plan.version, "round": number, "id": base64url(made["id"])}
    if plan.uses_cohort:
        fields["cohort"] = made["cohort"]
    if made.get("asked"):
        fields["asked"] = base64url(made["asked"])
    fields["bits"] = base64url(made["bits"])
    if plan.segments:
        fields["segment"] = {name: tag_of(state, name, tags) for name, tags in plan.segments}
    body = json.dumps(fields, separators=(",", ":"), ensure_ascii=False)
    status = "local" if is_local else "waiting"
    report = Report(number, plan.version, body, status, plan.closes(number), classes, window_loss)
    kept.reports.append(report)
    kept.reports.sort(key=lambda one: one.round)
    return report


def tag_of(state: State, name: str, tags: tuple[str, ...]) -> str:
    """The tag of a segment as the plan knows it."""
    tag = state.segment.get(name)
    return tag if tag in tags else "other"


def base64url(data: str) -> str:
    """Bytes, given in hexadecimal, as they stand in a report."""
    return base64.urlsafe_b64encode(bytes.fromhex(data)).decode().rstrip("=")


def tell(state: State, report: Report) -> None:
    """The bytes of a report are about to leave."""
    report.told = True
    state.kept.has_told = True
    for question, used in report.classes.items():
        state.kept.told.setdefault(question, set()).add(used)


# Sending


def outcome(given: dict[str, Any]) -> tuple[str, str]:
    """What a collector's answer means: only its own codes are final, and a redirect is never followed."""
    status = given.get("status", 0)
    if status == 202:
        return "accepted", ""
    if 400 <= status < 500 and given.get("code") in FINAL_CODES:
        return "rejected", given["code"]
    return "retry", ""


def due_reports(state: State, now: float) -> list[Report]:
    """What a flush tries to send: everything untried, and what failed once its time has come."""
    if state.kept.in_force != "granted" or is_paused(state):
        return []
    due = []
    for report in state.kept.reports:
        if report.state == "waiting" and report.closes > now:
            if report.attempts and report.not_before < now < report.surely_from:
                raise LeftOpenError("whether it is due depends on jitter: move the flush")
            if not report.attempts or now >= report.surely_from:
                due.append(report)
    return due


def settle(state: State, report: Report, given: dict[str, Any], now: float) -> bool:
    """Enter what came of an attempt; returns whether it was accepted."""
    result, code = outcome(given)
    if result == "retry":
        ceiling = min(min(15, plan_length(state) / 16) * 2**report.attempts, 3600)
        report.not_before = now + given.get("retry_after", 0)
        report.surely_from = report.not_before + ceiling
    else:
        report.state, report.code = result, code
    return result == "accepted"


def plan_length(state: State) -> int:
    """Seconds of a round."""
    return state.plan.length if state.plan else 0


# Events


def do_open(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """A program starts with a plan, a policy, a default consent and an environment."""
    text, policy = event["plan_text"], event.get("policy", {})
    state.is_open = True
    state.plan = plan_of(text)
    state.policy = dict.fromkeys(DEFAULT_POLICY) if policy == "unlimited" else {**DEFAULT_POLICY, **policy}
    state.default = event.get("consent", "unset")
    state.ask_again = event.get("ask_again", True)
    rules = {"CI": "silent_in_ci", "container": "silent_in_containers"}
    environment = event.get("environment", [])
    state.silenced = [one for one in environment if policy != "unlimited" or one not in rules]
    state.segment = event.get("segment", {})
    state.is_unusable = event.get("unusable", False)
    state.on_since = None
    state.answers = state.is_refused = False
    if state.is_unusable:
        return
    if state.is_damaged:
        recover(state, now)
    for name, before in state.kept.largest.items():
        limit = state.policy[name]
        state.kept.largest[name] = None if limit is None or before is None else max(limit, before)
    begin(state, now)


def recover(state: State, now: float) -> None:
    """A new epoch after damage: nobody can say what the file held, so the largest limits are counted."""
    true_loss, _ = loss_bounds(state)
    lost = {**state.kept.largest, "at": now, "true": true_loss}
    is_sampled = any(plan.window for plan, _ in state.kept.plans)
    lost["no_bound"] = is_sampled  # windows of earlier years are not known any more
    state.kept = Kept(
        choice="unset",
        epoch=state.kept.epoch + 1,
        silent_through=current_round(state, now),
        has_told=True,
        lost=lost,
        largest=state.kept.largest,
    )
    state.is_damaged = False


def do_close(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """The program ends."""
    state.is_open = False


def do_kill(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """The program is killed: nobody notes until when it ran."""
    state.is_open = False


def do_add(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """An amount is added to a metric's total."""
    record(state, event["metric"], event["amount"], now, adds=True)


def do_set(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """A metric's total is set."""
    record(state, event["metric"], event["value"], now)


def do_choose(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """A label is chosen."""
    record(state, event["metric"], event["label"], now)


def record(state: State, name: str, given: Any, now: float, *, adds: bool = False) -> None:
    """A value: it changes totals, and nothing that could show outside."""
    kept, number = state.kept, current_round(state, now)
    plan = plan_for(state, number)
    answered = any(report.round == number for report in kept.reports)
    if not is_active(state, now) or plan is None or answered:
        return
    if number <= kept.silent_through or is_paused_in(state, number, number):
        return
    for metric in plan.metrics:
        value = taken(metric, given) if name in metric.recorded else None
        if value is not None:
            totals = kept.totals.setdefault(number, {})
            before = totals.get(name)
            if isinstance(value, Fraction) and isinstance(before, Fraction) and adds:
                value = min(metric.top, before + value)
            totals[name] = before if before is not None and metric.pick == "first" else value


def taken(metric: Metric, given: Any) -> Fraction | str | None:
    """What a metric takes for a value; None: nothing, where that is told from 0."""
    if metric.labels:
        return given if given in metric.labels else None
    if given in ("Infinity", "-Infinity"):
        return metric.top if given == "Infinity" else Fraction(0)
    if given is None or given == "NaN":
        return None if metric.has_absent else Fraction(0)
    return min(metric.top, max(Fraction(0), Fraction(given)))


def do_write(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """Values reach the disk, which nobody sees."""


def do_flush(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """Answer what is due and try to send what waits; the collector's answers come in this order, then 202."""
    seen["result"] = 0
    if state.is_unusable:
        return
    answer_due(state, now)
    answers = list(event.get("answers", []))
    for report in due_reports(state, now):
        tell(state, report)
        report.attempts += 1
        seen["sent"].append(report.body)
        seen["result"] += settle(state, report, answers.pop(0) if answers else {"status": 202}, now)


def do_report(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """The host takes the bytes: of the latest finished round, or ends the current one."""
    seen["result"] = None
    current = current_round(state, now)
    number = current if event.get("current") else current - 1
    if not is_active(state, now) or state.kept.in_force != "granted":
        return
    enrolled = state.kept.enrolled_from
    if event.get("current") and (enrolled is None or number < enrolled):
        raise LeftOpenError("a device may give a host the round of its enrolment, or refuse it")
    made = [report for report in state.kept.reports if report.round == number]
    is_due = is_answerable(state, number, now) and is_in_whole_spell(state, number, now)
    if not made and is_due and is_asked(state, number, now):
        made = [answer(state, number)]
    if made and made[0].state != "local":
        tell(state, made[0])
        seen["result"] = made[0].body


def do_consent(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """The person chooses. The choice is kept under every rule, and wins over the program's default."""
    seen["result"] = not state.is_unusable
    if state.is_unusable or state.plan is None:
        return
    state.kept.choice = event["choice"]
    state.kept.agreed = agreement(state, state.plan)
    begin(state, now)


def do_pause(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """The person pauses the device."""
    seen["result"] = True
    start_pause(state, now, "asked")


def do_resume(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """The person ends the pause."""
    seen["result"] = True
    end_pause(state, now, "asked")


def do_forget(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """A new secret and a new epoch; what was told stays counted."""
    kept = state.kept
    seen["result"] = True
    if kept.secret is None:
        return
    draw_secret(state)
    kept.epoch += 1
    kept.silent_through = max(kept.silent_through, current_round(state, now))
    kept.totals = {}
    kept.on = set()
    state.on_since = None
    drop_waiting(state)
    if records(state):
        take_up(state, now)


def do_damage(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """The file is damaged while no program runs."""
    state.is_damaged = True


def do_delete(state: State, event: dict[str, Any], now: float, seen: dict[str, Any]) -> None:
    """The file is deleted while no program runs: nothing can know of it."""
    state.kept = Kept()
    state.is_damaged = False


EVENTS = {name.removeprefix("do_"): do for name, do in list(globals().items()) if name.startswith("do_")}
VALUES = ("add", "set", "choose", "write")
NO_CALL = ("open", *VALUES, "kill", "damage", "delete")  # presence is noted before every other event
UNSEEN = (*VALUES, "close", "kill", "damage", "delete")  # nothing is looked at after these


def step(state: State, event: dict[str, Any], now: float) -> tuple[State, dict[str, Any]]:
    """The next state after an event, and what can be seen of it."""
    state = deepcopy(state)
    seen = act(state, event, now)
    if event["do"] in UNSEEN:
        return state, {}
    return state, {**seen, **look(state, now)}


def act(state: State, event: dict[str, Any], now: float) -> dict[str, Any]:
    """Change a state by an event; returns what leaves the device, and the secret that it draws."""
    seen: dict[str, Any] = {"sent": []}
    had_secret = state.kept.secret
    runs = state.is_open and not state.is_unusable
    if runs and event["do"] not in NO_CALL:
        note_presence(state, now)
    if "while_sending" in event:
        # A report is on its way when the call is made, which returns once the answer is there.
        answer_due(state, now)
        [report] = due_reports(state, now)
        tell(state, report)
        report.attempts += 1
        seen["sent"].append(report.body)
        EVENTS[event["do"]](state, event, now, seen)
        settle(state, report, event["while_sending"], now)
        if report.state == "waiting" and report not in state.kept.reports:
            raise ValueError("a report that may have left is gone")
    else:
        EVENTS[event["do"]](state, event, now, seen)
    if state.is_open and not state.is_unusable and event["do"] not in VALUES:
        note_presence(state, now)
    if state.kept.secret is None:
        seen["secret"] = state.secrets_drawn
    elif state.kept.secret != had_secret:
        seen["secret"] = state.kept.secret
    return seen


# What can be seen


def look(state: State, now: float) -> dict[str, Any]:
    """What status and receipt say."""
    kept = state.kept
    if state.is_unusable:
        return {"active": False, "reasons": ["state"]}
    reasons = [kept.in_force] if kept.in_force in ("unset", "denied") else []
    if is_paused(state, "asked"):
        reasons.append("paused")
    reasons += state.silenced
    if state.is_refused:
        reasons.append("refused")
    if has_expired(state.plan, now):
        reasons.append("expired")
    least, most = loss_bounds(state)
    return {
        "consent": kept.in_force,
        "active": is_active(state, now),
        "reasons": reasons,
        "version": kept.plans[-1][0].version if kept.plans else None,
        **({} if kept.secret is None else {"epoch": kept.epoch}),
        "reports": listed(kept.reports),
        "loss": [float(least), None if most is None else float(most)],
        "next": next_answer(state, now),
    }


def listed(reports: list[Report]) -> list[str]:
    """Reports, those of neighbouring rounds together: "80001-80003 v1 accepted"."""
    lines: list[tuple[int, int, str]] = []
    for report in reports:
        words = f"v{report.version} {report.state}" + (f" {report.code}" if report.code else "")
        if lines and lines[-1][1] == report.round - 1 and lines[-1][2] == words:
            lines[-1] = (lines[-1][0], report.round, words)
        else:
            lines.append((report.round, report.round, words))
    return [f"{a} {words}" if a == b else f"{a}-{b} {words}" for a, b, words in lines]


def loss_bounds(state: State) -> tuple[Decimal, Decimal | None]:
    """
    The loss of all that may have left, exactly; and that of all that was answered to be sent.

    A receipt prints no less than the first and no more than the second. After damage the second is the largest
    limit that was ever in force; None: there is no bound.
    """
    kept = state.kept
    one_answer = {question: lifetime / 2 for question, lifetime in kept.held.items()}
    least = sum((len(used) * one_answer[question] for question, used in kept.told.items()), Decimal(0))
    most = sum((len(used) * one_answer[question] for question, used in kept.used.items()), Decimal(0))
    told = {report.round for report in kept.reports if report.told}
    least += sum((window.loss for window in kept.windows if window.round in told), Decimal(0))
    most += sum((window.loss for window in kept.windows if window.round is not None), Decimal(0))
    if kept.lost is None:
        return least, most
    least += kept.lost["true"]
    if kept.lost["max_lifetime"] is None or kept.lost["no_bound"]:
        return least, None
    return least, most + kept.lost["max_lifetime"]


def next_answer(state: State, now: float) -> int | None:
    """When the next answer is given if nothing changes, unix seconds; None: never."""
    kept = state.kept
    if not is_active(state, now) or kept.enrolled_from is None:
        return None
    ahead = deepcopy(state)
    current = current_round(state, now)
    for number in range(max(kept.enrolled_from, current), current + 3 * YEAR // plan_length(state)):
        plan = plan_for(ahead, number)
        if plan is None:
            return None
        end = plan.start(number + 1)
        if has_expired(plan, end):
            return None
        if plan.window and number == plan.first_of_window(number):
            note_presence(ahead, plan.start(number))
        is_free = number > kept.silent_through and not is_paused_in(state, number, number)
        if is_free and is_asked(ahead, number, end):
            return end
    return None


# Lives


def live(events: list[dict[str, Any]], plans: dict[str, str]) -> list[dict[str, Any]]:
    """A life as rows: each event, and what can be seen after it."""
    state, rows = State(), []
    for event in events:
        known = {**event, "plan_text": plans[event["plan"]]} if "plan" in event else event
        state, then = step(state, known, event["at"])
        rows.append({**event, "then": then} if then else event)
    return rows


def document() -> dict[str, Any]:
    """All that transitions.json holds."""
    lives_of_spec = import_module("spec.lives")  # beside this file in the repository, and in no package

    lives = []
    for name, about, events in lives_of_spec.LIVES:
        rows = live(events, lives_of_spec.PLANS)
        for row in rows:
            if name in lives_of_spec.NOT_LISTED and "then" in row:
                row["then"].pop("reports", None)
        lives.append({"name": name, "about": about, "rows": rows})
    return {
        "format": "reticent-transitions-1",
        "secrets": [secret(number).hex() for number in range(6)],
        "plans": lives_of_spec.PLANS,
        "lives": lives,
    }


def text() -> str:
    """The file: one line per row."""
    whole = document()
    lives = whole.pop("lives")
    head = json.dumps(whole, indent=1)
    parts = []
    for life in lives:
        rows = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in life.pop("rows"))
        parts.append(json.dumps(life, ensure_ascii=False)[:-1] + ', "rows": [\n' + rows + "\n ]}")
    return head[:-2] + ',\n "lives": [\n ' + ",\n ".join(parts) + "\n]\n}\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text())
    else:
        sys.exit(0 if FILE.read_text() == text() else "transitions.json is not what the rules say: --write")
