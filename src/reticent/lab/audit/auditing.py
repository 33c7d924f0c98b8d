"""An audit: what is certain, what was tried, and whether anything is above its claim."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from multiprocessing import get_context

from reticent.errors import ParameterError
from reticent.lab.audit.attacks import Attacked, attacks_on, carry_out
from reticent.lab.audit.bounds import FALSE_ALARM
from reticent.lab.audit.client import Client, CoreClient, Participant, SdkClient, SdkParticipant
from reticent.lab.audit.conduct import check_conduct
from reticent.lab.audit.enumeration import ONE_ROUND, enumerate_plan
from reticent.lab.audit.figures import Enumerated
from reticent.lab.audit.independence import carry_out_independence, count_events
from reticent.lab.audit.learned import carry_out_learned
from reticent.lab.audit.structure import Check, check_structure
from reticent.lab.audit.worlds import Histories, Sample, World, collect, histories
from reticent.plan import Plan

REPORTS = 1_200_000
"""
Reports of the black-box attacks, by default.

One mean with ε = 1.1 under a claim of 1.0 (γ = 0.2, ten rounds) is found out by each direction of the
attack with a chance above 0.98: see `Event.notices`.
"""

ROUNDS = 10
SDK_DEVICES = 2_000
"""Whole devices, each with a state file, that answer one round of the attacks."""

CONDUCT_DEVICES = 100
SDK_CONDUCT_DEVICES = 20
_CHUNK = 1_000
_SDK_CHUNK = 100
_SDK_EFFORT = 200
"""How many reports of the core take as long as a whole device."""

_START = 1_700_000_000

Progress = Callable[[float, float], None]
_Call = tuple[Client | None, Plan, World, int, int, int]


def quiet(done: float, total: float) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Audit:
    """Everything an audit found."""

    plan: str
    version: int
    clients: tuple[str, ...]
    rounds: int
    reports: int
    """Of the black-box attacks, also those that only showed a cohort."""
    false_alarm: float
    """How often all this flags a client that keeps its claims."""
    exact: tuple[Enumerated, ...]
    checks: tuple[Check, ...]
    attacks: tuple[Attacked, ...]
    seconds: float

    @property
    def problems(self) -> list[str]:
        """What is wrong, a line each."""
        above = "above the claim of"
        return [
            *(f"{e.subject}, {e.what}: {e.loss:.6g} is {above} {e.claim:.6g}" for e in self.exact if e.above),
            *(
                f"{a.subject}, {a.what}: at least {a.lower:.4g}, {above} {a.claim:.4g}"
                for a in self.attacks
                if a.above
            ),
            *(f"{c.subject}: {c.what}: {c.detail}" for c in self.checks if c.holds is False),
        ]

    @property
    def sound(self) -> bool:
        """Whether nothing is above its claim and every check holds."""
        return not self.problems

    def to_dict(self) -> dict[str, object]:
        """Ready for JSON."""
        return {
            "plan": self.plan,
            "version": self.version,
            "sound": self.sound,
            "problems": self.problems,
            "clients": list(self.clients),
            "rounds": self.rounds,
            "reports": self.reports,
            "false_alarm": self.false_alarm,
            "exact": [each.to_dict() for each in self.exact],
            "attacks": [each.to_dict() for each in self.attacks],
            "checks": [each.to_dict() for each in self.checks],
            "seconds": self.seconds,
        }


def audit(
    plan: Plan,
    *,
    client: Client | None = None,
    reports: int = REPORTS,
    rounds: int = ROUNDS,
    sdk_devices: int = SDK_DEVICES,
    seed: int | None = None,
    workers: int = 1,
    progress: Progress = quiet,
) -> Audit:
    """
    Audit a plan, and a client that answers it: the SDK unless another is given.

    The SDK is audited twice: its answering core for volume, and whole devices with their files, which must
    send what the core computes, byte for byte. `seed` repeats the secrets of the core; whole devices always
    draw theirs from the operating system. With several `workers` the core answers in as many processes.

    A client that keeps every claim is flagged with a chance of at most `FALSE_ALARM`, over everything here.
    """
    _check(reports, rounds)
    began = time.perf_counter()
    exact = enumerate_plan(plan, rounds)
    checks = check_structure(plan)
    first_round = first_round_of(plan, rounds)
    subject = client or CoreClient(None if seed is None else str(seed))
    told, short = histories(plan, rounds), histories(plan, 1)
    attacks = attacks_on(plan, told, rounds, exact)
    sdk_attacks = [] if client else attacks_on(plan, short, 1, exact)
    pairs = list(dict.fromkeys([*pairwise(range(told.steady)), told.joint]))
    together = len(attacks) + count_events(len(told.worlds)) + len(sdk_attacks) + 2 * len(pairs)

    counts = _devices(told, reports, rounds + plan.uses_cohort)
    sdk_counts = _devices(short, sdk_devices, 1) if client is None else []
    tell = _counted(progress, sum(counts) * rounds + _SDK_EFFORT * sum(sdk_counts))
    with _executor(subject, workers) as executor:
        play = _Play(plan, first_round, executor, tell)
        samples = play.all(subject, told.worlds, counts, rounds)
        sdk_samples = play.all(None, short.worlds, sdk_counts, 1) if client is None else []
    found = [
        *carry_out(attacks, plan, samples, together),
        *carry_out_learned(plan, samples, pairs, exact, together),
        *carry_out_independence(samples, together),
    ]
    checks += check_conduct(subject, plan, first_round, CONDUCT_DEVICES) + _faults(subject.name, samples)
    names = [subject.name]
    if client is None:
        found += [
            replace(each, what=f"{ONE_ROUND}, {SdkClient.name}")
            for each in carry_out(sdk_attacks, plan, sdk_samples, together)
        ]
        checks += _sdk_conduct(plan, first_round, min(SDK_CONDUCT_DEVICES, sdk_devices))
        checks += _faults(SdkClient.name, sdk_samples)
        names.append(SdkClient.name)
    asked = sum(counts) * (rounds + plan.uses_cohort) + sum(sdk_counts) * (1 + plan.uses_cohort)
    seconds = time.perf_counter() - began
    return Audit(
        plan.name, plan.version, tuple(names), rounds, asked, FALSE_ALARM,
        tuple(exact), tuple(checks), tuple(found), seconds,
    )  # fmt: skip


def _check(reports: int, rounds: int) -> None:
    if reports < 1000:
        raise ParameterError("reports", "a whole number >= 1000", reports)
    if not 1 <= rounds <= 100:
        raise ParameterError("rounds", "a whole number from 1 to 100", rounds)


def first_round_of(plan: Plan, rounds: int) -> int:
    """A round well before the plan expires."""
    now = float(_START)
    if plan.expires is not None:
        end = datetime(plan.expires.year, plan.expires.month, plan.expires.day, tzinfo=UTC).timestamp()
        now = max(0.0, min(now, end - (rounds + 8) * plan.round_seconds))
    return plan.round_at(now) + 2


def _devices(told: Histories, reports: int, per_device: int) -> list[int]:
    """How many devices live each history, so that all their reports come to `reports`."""
    unit = reports / per_device / sum(world.weight for world in told.worlds)
    return [max(2, int(unit * world.weight)) for world in told.worlds]


@contextmanager
def _executor(client: Client, workers: int) -> Iterator[Executor | None]:
    """Processes for the SDK's core; any other client answers in this one."""
    if workers <= 1 or not isinstance(client, CoreClient):
        yield None
        return
    with ProcessPoolExecutor(min(workers, os.cpu_count() or 1), get_context("spawn")) as executor:
        try:
            yield executor
        except BaseException:
            executor.shutdown(cancel_futures=True)
            raise


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes that are started meanwhile stay so: who is interrupted is the audit, and it ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _counted(progress: Progress, total: float) -> Callable[[float], None]:
    """Adds up what is done."""
    done = 0.0

    def tell(more: float) -> None:
        nonlocal done
        done += more
        progress(done, total)

    return tell


@dataclass(frozen=True, slots=True)
class _Play:
    """Lets devices live through worlds, in chunks, here or in several processes."""

    plan: Plan
    first_round: int
    executor: Executor | None
    tell: Callable[[float], None]

    def all(
        self, client: Client | None, worlds: Sequence[World], counts: Sequence[int], rounds: int
    ) -> list[Sample]:
        """What the devices of each world send; without a client, whole devices of the SDK."""
        size = _CHUNK if client else _SDK_CHUNK
        chunks = [
            (place, start, min(size, count - start))
            for place, count in enumerate(counts)
            for start in range(0, count, size)
        ]
        calls = [
            (_part(client, f"{place}/{start}"), self.plan, worlds[place], rounds, self.first_round, devices)
            for place, start, devices in chunks
        ]
        parts: list[list[Sample]] = [[] for _ in worlds]
        for (place, _, devices), sample in zip(chunks, self._samples(calls), strict=True):
            parts[place].append(sample)
            self.tell(devices * (rounds if client else _SDK_EFFORT))
        return [Sample.together(part) for part in parts]

    def _samples(self, calls: Sequence[_Call]) -> Iterator[Sample]:
        if self.executor is None:
            return (_collected(call) for call in calls)
        with _deaf_to_interrupts():
            return self.executor.map(_collected, calls)


def _part(client: Client | None, label: str) -> Client | None:
    return client.part(label) if isinstance(client, CoreClient) else client


def _collected(call: _Call) -> Sample:
    """One chunk; whole devices get a folder of their own for it."""
    client, plan, world, rounds, first_round, devices = call
    if client is not None:
        return collect(client, plan, world, rounds, first_round, devices)
    sdk = SdkClient()
    try:
        return collect(sdk, plan, world, rounds, first_round, devices)
    finally:
        sdk.close()


def _sdk_conduct(plan: Plan, first_round: int, devices: int) -> list[Check]:
    """How whole devices behave, beside the core with the same secret."""
    client = SdkClient()
    try:
        return check_conduct(client, plan, first_round, devices, reference=_core_of)
    finally:
        client.close()


def _core_of(participant: Participant) -> Participant:
    if not isinstance(participant, SdkParticipant):
        raise TypeError("only the SDK has a core to compare with")
    return participant.core()


def _faults(name: str, samples: Sequence[Sample]) -> list[Check]:
    """Messages that were no reports, or not whole."""
    kinds: dict[str, int] = {}
    for sample in samples:
        for kind, count in sample.faults.items():
            kinds[kind] = kinds.get(kind, 0) + count
    silent = sum(int(sample.silent.sum()) for sample in samples)
    detail = ", ".join(f"{count:,} x {kind}" for kind, count in kinds.items())
    total = sum(sample.silent.size for sample in samples)
    return [
        Check(name, "messages are whole reports", not kinds, detail or f"{total - silent:,} read"),
        Check(name, "no round is left out", None if silent else True, f"{silent:,} of {total:,} were silent"),
    ]
