"""An audit: what is certain, what was tried, and whether anything is above its claim."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import repeat
from multiprocessing import get_context
from typing import TYPE_CHECKING

from reticent.errors import ParameterError
from reticent.plan import Plan
from reticent.privacy import printed
from reticent_collector.plots import COLOURS, drawing, panels
from reticent_lab.audit.attacks import attacks_on, compare_steady
from reticent_lab.audit.blind import compare_envelopes, compare_learned, compare_links, compare_pairs
from reticent_lab.audit.bounds import FALSE_ALARM, Attacked, at_least, judge, noticed_faults
from reticent_lab.audit.changes import compare_changes
from reticent_lab.audit.clients import AuditedClient, CoreClient, SdkClient
from reticent_lab.audit.consistency import check_conduct
from reticent_lab.audit.enumeration import AuditCheck, check_structure, enumerate_plan
from reticent_lab.audit.exact import Enumerated
from reticent_lab.audit.scenarios import Sample, World, collect, histories, steady_histories, window_histories
from reticent_lab.audit.windows import enumerate_windows

if TYPE_CHECKING:
    from matplotlib.figure import Figure


REPORTS = 1_200_000
"""
Reports of the black-box attacks, by default.

One mean with ε = 1.06 under a claim of 1.0 (γ = 0.2) is found out by each direction of one attack with a
chance above 0.98: see `Event.notices`.
"""

LARGEST_EXCESS = 1.0
"""What a run must notice in every metric to tell anything: an ε larger by this share, twice the plan's."""

SOUND, ABOVE_CLAIM, NOT_ENOUGH = "sound", "above claim", "not enough reports"

ROUNDS = 10
SDK_DEVICES = 2_000  # Whole devices, each with a state file, that answer one round of the attacks
CONDUCT_DEVICES = 100
SDK_CONDUCT_DEVICES = 20
_CHUNK = 1_000
_SDK_CHUNK = 100
_SDK_EFFORT = 200  # How many reports of the core take as long as a whole device
_START = 1_700_000_000

Progress = Callable[[float, float], None]


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything an audit found."""

    plan: str
    version: int
    clients: tuple[str, ...]
    metrics: tuple[str, ...]
    rounds: int
    reports: int  #: Of the black-box attacks, also those that only showed a cohort
    false_alarm: float  #: How often all this flags a client that keeps its claims
    exact: tuple[Enumerated, ...]
    checks: tuple[AuditCheck, ...]
    attacks: tuple[Attacked, ...]
    sampled: bool  #: Whether answers are sampled: then any two histories are compared
    faults: Mapping[str, float | None]
    """In how large a share of devices a fault that is no larger ε is found with chance 0.98; None: too few reports."""
    seconds: float

    @property
    def problems(self) -> list[str]:
        """What is wrong, a line each."""
        above = "above the claim of"
        return [
            *(
                f"{loss.subject}, {loss.what}: {printed(loss.loss, 6)} is {above} {printed(loss.claim, 6)}"
                for loss in self.exact
                if loss.above
            ),
            *(
                f"{attack.subject}, {attack.what}: at least {at_least(attack.lower)}, {above} {printed(attack.claim)}"
                for attack in self.attacks
                if attack.above
            ),
            *(
                f"{check.subject}: {check.what}: {check.detail}"
                for check in self.checks
                if check.holds is False
            ),
        ]

    @property
    def power(self) -> dict[str, float | None]:
        """
        Per metric, group and the whole plan: the share by which ε must be larger to be noticed with chance 0.98.

        None if no excess up to sixteen times ε is.
        """
        subjects = [loss.subject for loss in self.exact] if len(self.metrics) > 1 else self.metrics
        notices: dict[str, list[float]] = {subject: [] for subject in subjects}
        for attack in self.attacks:
            if attack.notice is not None:
                notices[attack.subject].append(attack.notice)
        return {subject: min(shares, default=None) for subject, shares in notices.items()}

    @property
    def notices(self) -> float | None:
        """The smallest excess of ε that would be noticed in whichever metric has it; None: in some, none."""
        shares = [self.power[metric] for metric in self.metrics]
        return None if None in shares else max(share for share in shares if share is not None)

    @property
    def verdict(self) -> str:
        """
        "sound", "above claim" or "not enough reports".

        "Not enough reports" if nothing is above its claim, but twice the ε of some metric would not be noticed
        with chance 0.98.
        """
        if self.problems:
            return ABOVE_CLAIM
        return SOUND if self.notices is not None and self.notices <= LARGEST_EXCESS else NOT_ENOUGH

    @property
    def sound(self) -> bool:
        """Whether nothing is above its claim, every check holds, and there were reports enough to tell."""
        return self.verdict == SOUND

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        judged = {"verdict": self.verdict, "sound": self.sound, "problems": self.problems}
        return judged | {"notices": self.notices, "power": self.power} | asdict(self)


def audit(
    plan: Plan,
    *,
    client: AuditedClient | None = None,
    reports: int = REPORTS,
    rounds: int = ROUNDS,
    sdk_devices: int = SDK_DEVICES,
    seed: int | None = None,
    workers: int = 1,
    progress: Progress = lambda done, total: None,
) -> Audit:
    """
    Audit a plan, and a client that answers it: the SDK unless another is given.

    The SDK is audited twice: its answering core, and whole devices with their files, which must send what the
    core computes, byte for byte. `seed` repeats the secrets of the core. A client that keeps every claim is
    flagged with a chance of at most `FALSE_ALARM`, over everything here.
    """
    if reports < 1000:
        raise ParameterError("reports", "a whole number >= 1000", reports)
    if not 1 <= rounds <= 100:
        raise ParameterError("rounds", "a whole number from 1 to 100", rounds)
    began = time.perf_counter()
    checks, sampled = check_structure(plan), plan.answers.sampled
    if sampled:
        exact, independence = enumerate_windows(plan, rounds)
        checks += independence
        scenarios = whole = window_histories(plan)
        # Whole devices live through every round of two windows: fewer of them take as long.
        sdk_devices = min(sdk_devices, max(2, 16 * sdk_devices // whole.worlds[0].rounds))
    else:
        exact = enumerate_plan(plan, rounds)
        scenarios, whole = histories(plan, rounds), steady_histories(plan, 1)
    first_round = first_round_of(plan, rounds)
    subject = client or CoreClient(None if seed is None else str(seed))
    counts = _devices(plan, scenarios.worlds, reports)
    sdk_counts = []
    if client is None:
        sdk_counts = _devices(plan, whole.worlds, sdk_devices * (2 if sampled else 1 + plan.uses_cohort))
    total = sum(count * world.rounds for count, world in zip(counts, scenarios.worlds, strict=True))
    total, done = total + _SDK_EFFORT * sum(sdk_counts), 0.0

    def tell(more: float) -> None:
        nonlocal done
        done += more
        progress(done, total)

    with ExitStack() as stack:
        executor = None  # processes for the SDK's core; any other client answers in this one
        if workers > 1 and isinstance(subject, CoreClient):
            executor = stack.enter_context(_processes(workers))
        play = partial(_play, plan, first_round, executor, tell)
        samples = play(subject, scenarios.worlds, counts)
        sdk_samples = play(None, whole.worlds, sdk_counts) if client is None else []
    comparisons = [
        *compare_steady(plan, list(attacks_on(plan, scenarios, exact)), samples),
        *compare_learned(plan, scenarios, samples, exact),
        *compare_pairs(plan, scenarios, samples),
        *compare_envelopes(plan, samples),
        *compare_links(plan, scenarios, samples),
    ]
    if scenarios.moving is not None:
        comparisons += compare_changes(
            plan, scenarios.worlds[scenarios.moving], samples[scenarios.moving], exact
        )
    checks += check_conduct(subject, plan, first_round, CONDUCT_DEVICES) + _faults(subject.name, samples)
    if client is None:
        of_sdk = [
            *compare_steady(plan, list(attacks_on(plan, whole, exact)), sdk_samples),
            *compare_envelopes(plan, sdk_samples),
            *compare_links(plan, whole, sdk_samples),
        ]
        comparisons += [replace(seen, what=f"{seen.what}, {SdkClient.name}") for seen in of_sdk]
        with closing(SdkClient()) as sdk:
            checks += check_conduct(sdk, plan, first_round, min(SDK_CONDUCT_DEVICES, sdk_devices))
        checks += _faults(SdkClient.name, sdk_samples)
    names = (subject.name,) if client else (subject.name, SdkClient.name)
    shown = plan.uses_cohort and not sampled
    asked = sum(sample.silent.size + sample.devices * shown for sample in [*samples, *sdk_samples])
    seconds = time.perf_counter() - began
    return Audit(
        plan.name, plan.version, names, tuple(plan.by_name), rounds, asked, FALSE_ALARM,
        tuple(exact), tuple(checks), tuple(judge(comparisons)), sampled, noticed_faults(comparisons), seconds,
    )  # fmt: skip


def first_round_of(plan: Plan, rounds: int) -> int:
    """A round well before the plan expires."""
    now = float(_START)
    if plan.expires is not None:
        end = datetime(plan.expires.year, plan.expires.month, plan.expires.day, tzinfo=UTC).timestamp()
        now = max(0.0, min(now, end - (rounds + 8 + 4 * plan.answers.window) * plan.round_seconds))
    number = plan.round_at(now) + 2
    window = plan.window_of(number)  # a device answers windows that begin after it was enrolled
    return number if window is None else window.first + window.rounds


def _devices(plan: Plan, worlds: Sequence[World], reports: int) -> list[int]:
    """How many devices live in each world, so that all their reports come to `reports`; in pairs."""
    window = plan.answers.window
    costs = [
        world.weight * (world.rounds // window if window else world.rounds + plan.uses_cohort)
        for world in worlds
    ]
    return [max(2, 2 * round(reports / sum(costs) * world.weight / 2)) for world in worlds]


@contextmanager
def _processes(workers: int) -> Iterator[Executor]:
    """Processes that ignore interrupts: the audit is interrupted, and ends them."""
    hears = threading.current_thread() is threading.main_thread()
    count = min(workers, os.cpu_count() or 1)
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN) if hears else None
        try:
            for _ in range(count):  # a task that finds no process idle starts one, which inherits it
                pool.submit(os.getpid)
        finally:
            if hears:
                signal.signal(signal.SIGINT, before)
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def _play(
    plan: Plan,
    first_round: int,
    executor: Executor | None,
    tell: Callable[[float], None],
    client: AuditedClient | None,
    worlds: Sequence[World],
    counts: Sequence[int],
) -> list[Sample]:
    size = _CHUNK if client else _SDK_CHUNK
    chunks = [(place, start) for place, count in enumerate(counts) for start in range(0, count, size)]
    samples = (executor.map if executor else map)(
        _collected,
        [
            client.part(f"{place}/{start}") if isinstance(client, CoreClient) else client
            for place, start in chunks
        ],
        repeat(plan),
        [worlds[place] for place, _ in chunks],
        repeat(first_round),
        [min(size, counts[place] - start) for place, start in chunks],
        chunks,
    )
    parts: list[list[Sample]] = [[] for _ in worlds]
    for (place, _), sample in zip(chunks, samples, strict=True):
        parts[place].append(sample)
        tell(sample.devices * (worlds[place].rounds if client else _SDK_EFFORT))
    return [Sample.together(part) for part in parts]


def _collected(
    client: AuditedClient | None,
    plan: Plan,
    world: World,
    first_round: int,
    devices: int,
    seed: tuple[int, int],
) -> Sample:
    if client is not None:
        return collect(client, plan, world, first_round, devices, seed)
    with closing(SdkClient()) as sdk:
        return collect(sdk, plan, world, first_round, devices, seed)


def _faults(name: str, samples: Sequence[Sample]) -> list[AuditCheck]:
    kinds: Counter[str] = Counter()
    for sample in samples:
        kinds.update(sample.faults)
    silent = sum(int(sample.silent.sum()) for sample in samples)
    detail = ", ".join(f"{count:,} x {kind}" for kind, count in kinds.items())
    total = sum(sample.silent.size for sample in samples)
    return [
        AuditCheck(name, "messages are whole reports", not kinds, detail or f"{total - silent:,} read"),
        AuditCheck(
            name, "no report is left out", None if silent else True, f"{silent:,} of {total:,} were silent"
        ),
    ]


_WIDEST = 1.6  # Where bars are cut off, in claims


@drawing
def draw_audit(audit: Audit) -> Figure:
    """
    Each attack on answer bits: the exact loss, and the estimate between its two bounds, over the claim.

    A left end to the right of 1 is proof, at the audit's confidence, that the claim is broken. Attacks
    without a finite claim are left out.
    """
    rows = [row for row in audit.attacks if row.exact is not None and 0 < row.claim < math.inf][::-1]
    figure, (axes,) = panels(width=8.0, height=1.4 + 0.22 * len(rows))
    widest = max([_WIDEST, *(1.1 * row.lower / row.claim for row in rows)])
    for place, row in enumerate(rows):
        lower, middle, upper = (
            min(max(share, 0.0), widest)
            for share in (row.lower / row.claim, row.estimate / row.claim, row.upper / row.claim)
        )
        axes.errorbar(
            middle, place, xerr=[[middle - lower], [upper - middle]],
            fmt="o", color=COLOURS[1] if row.above else COLOURS[0],
            label="attack: estimate between its bounds" if place == 0 else None,
        )  # fmt: skip
    axes.scatter(
        [(row.exact or 0.0) / row.claim for row in rows], range(len(rows)),
        marker="x", s=26, color=COLOURS[2], label="exact, by enumeration", zorder=4,
    )  # fmt: skip
    axes.axvline(1, color=COLOURS[7], linewidth=1, label="claim")
    labels = [f"{row.subject}: {row.what}  ({printed(row.claim, 3)})" for row in rows]
    axes.set_yticks(range(len(rows)), labels, fontsize=8)
    axes.set_ylim(-0.7, len(rows) - 0.3)
    axes.set_xlim(0, widest)
    axes.set_xlabel("loss as a share of its claim (the claim, in epsilon, stands in brackets)")
    axes.grid(visible=False, axis="y")
    figure.suptitle(
        f"{audit.plan} (version {audit.version}), {audit.reports:,} reports. "
        f"All bounds hold together with confidence 1 - {audit.false_alarm:g}",
        fontsize=10,
    )
    figure.legend(loc="outside lower center", ncols=3)
    return figure
