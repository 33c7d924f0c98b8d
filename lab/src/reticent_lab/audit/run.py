"""An audit: the claims of a plan by enumeration, and a client's bytes beside those of the rules."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from reticent.errors import ParameterError
from reticent.losses import printed
from reticent.plan import Plan
from reticent_lab.audit.clients import AuditedClient, SdkClient
from reticent_lab.audit.enumeration import AuditCheck, check_structure, enumerate_plan
from reticent_lab.audit.exact import Enumerated
from reticent_lab.audit.lives import FAMILIES, families_of, last_round_of, lives_of
from reticent_lab.audit.replay import ByteDifference, Replay, replay
from reticent_lab.audit.windows import enumerate_windows
from reticent_lab.rules import interpreter

LIVES = 25
"""Lives of each family, by default."""

ROUNDS = 10
_START = 1_700_000_000

UNFORETOLD = "the client takes no test secret, so nobody can say which bytes are right"
NO_TEXT = "the plan was not read from a plan file, which the rules are applied to"
NO_RULE = "the plan has a mechanism that the rules do not know"
NOTHING_SENT = "no life led to a report, so nothing was compared"


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything an audit found."""

    plan: str
    version: int
    client: str
    exact: tuple[Enumerated, ...]
    checks: tuple[AuditCheck, ...]
    families: tuple[str, ...]  #: Of lives
    lives: int  #: That the client lived
    events: int  #: After which everything that left was compared
    left_open: int  #: Events of lives that were not compared: the rules leave them open, or no program runs
    reports: int  #: Compared, byte by byte
    difference: ByteDifference | None  #: The first one
    undecided: str  #: Why the client's bytes could not be compared; empty: they were
    seconds: float

    @property
    def problems(self) -> list[str]:
        """What is wrong, a line each."""
        lines = [
            f"{loss.subject}, {loss.what}: {printed(loss.loss, 6)} is above the claim of {printed(loss.claim, 6)}"
            for loss in self.exact
            if loss.above
        ]
        lines += [
            f"{check.subject}: {check.what}: {check.detail}" for check in self.checks if check.holds is False
        ]
        if self.difference is not None:
            lines.append(f"{self.client}: what leaves differs from the rules in life {self.difference.life}")
        return lines

    @property
    def verdict(self) -> str:
        """
        "sound", "above claim", "differs" or "not decided".

        "Sound": every claim of the plan holds, and the client sent what the rules say in all lives.
        """
        if self.difference is not None:
            return "differs"
        if self.problems:
            return "above claim"
        return "not decided" if self.undecided else "sound"

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong and everything was compared."""
        return self.verdict == "sound"

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return {"verdict": self.verdict, "sound": self.sound, "problems": self.problems} | asdict(self)


def audit(
    plan: Plan,
    *,
    client: AuditedClient | None = None,
    lives: int = LIVES,
    rounds: int = ROUNDS,
    families: Sequence[str] = FAMILIES,
    progress: Callable[[float, float], None] = lambda done, total: None,
) -> Audit:
    """
    Audit a plan, and a client that answers it: `reticent.Device` unless another is given.

    Losses are enumerated over up to so many `rounds`. The client lives so many `lives` of each family; nothing
    depends on chance, and a repeated audit gives the same result.
    """
    if not 1 <= lives <= 10_000:
        raise ParameterError("lives", "a whole number from 1 to 10,000", lives)
    if not 1 <= rounds <= 100:
        raise ParameterError("rounds", "a whole number from 1 to 100", rounds)
    began = time.perf_counter()
    checks = check_structure(plan)
    if plan.answers.sampled:
        exact, independence = enumerate_windows(plan, rounds)
        checks += independence
    else:
        exact = enumerate_plan(plan, rounds)
    subject = client or SdkClient()
    undecided = why_undecided(plan)
    lived = 0
    events = 0
    left_open = 0
    reports = 0
    difference = None
    try:
        if not undecided:
            chosen = [life for life in lives_of(plan, lives, first_round_of(plan)) if life.family in families]
            result = replay(subject, chosen, progress)
            undecided = why_unproved(result)
            lived = result.lives
            events = result.events
            left_open = result.left_open
            reports = result.reports
            difference = result.difference
    finally:
        if isinstance(subject, SdkClient) and client is None:
            subject.close()
    chosen_families = tuple(family for family in families_of(plan) if family in families)
    return Audit(
        plan.name, plan.version, subject.name, tuple(exact), tuple(checks), chosen_families, lived, events, left_open,
        reports, difference, undecided, time.perf_counter() - began,
    )  # fmt: skip


def why_undecided(plan: Plan) -> str:
    """Why the rules cannot say what a device of this plan sends; empty: they can."""
    if not plan.text:
        return NO_TEXT
    try:
        interpreter.plan_of(plan.text)
    except (KeyError, TypeError, ValueError):
        return NO_RULE
    return ""


def why_unproved(result: Replay) -> str:
    """Why lives without a difference prove nothing; empty: they do."""
    if not result.decided:
        return UNFORETOLD
    return "" if result.reports else NOTHING_SENT


def first_round_of(plan: Plan) -> int:
    """A round well before the plan expires; where answers are sampled, the first of a window."""
    number = plan.round_at(_START) + 2
    if plan.expires is not None:
        number = max(0, min(number, last_round_of(plan) - 200 - 8 * plan.answers.window))
    window = plan.window_of(number)  # a device answers windows that begin after it was enrolled
    return number if window is None else window.first + window.rounds
