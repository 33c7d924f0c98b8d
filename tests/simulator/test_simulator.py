"""Whatever happens, in whatever order: the laws of the whole system hold. And the simulator can tell."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.simulator.machine import System

from reticent.device import Answer, HttpTransport, Outcome, StateFile, answer
from reticent.reports import from_json, to_json
from reticent_collector.http import Committer
from reticent_collector.stores import Appended, Store


def budget(examples: int, steps: int = 30, *, to_fail: bool = False) -> settings:
    """So many sequences of so many steps; `to_fail`: a failure is wanted, and need not be made simple."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=True,
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        phases=[Phase.generate] if to_fail else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


FAST = budget(40, steps=25)
FINDS = settings(budget(60, steps=25, to_fail=True), derandomize=False)


@pytest.mark.long
def test_the_laws_hold_whatever_happens() -> None:
    run_state_machine_as_test(System, settings=FAST)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(40))
def test_the_laws_hold_in_ten_thousand_sequences(part: int) -> None:
    """40 × 250 sequences, each part from its own seed."""
    many = settings(budget(250, steps=15), derandomize=False)

    @seed(part)
    class Part(System):
        pass

    run_state_machine_as_test(Part, settings=many)


# Faults that it must find, each in the part of the real system where a person would make it.

Patch = pytest.MonkeyPatch


def acknowledges_before_the_commit(patch: Patch) -> None:
    """A collector that says 202 and writes with the next group: quicker, and a crash away from a loss."""
    owed: dict[Committer, Any] = {}

    def commit(self: Committer, group: Any) -> None:
        for records, done in self.read(group.unread) if group.unread else ():
            group.add(records, done)
        self._answer(group, {key: Appended(len(parts)) for key, parts in group.records.items()})
        before = owed.pop(self, None)
        owed[self] = group
        if before is not None:
            self._store.append({key: b"".join(parts) for key, parts in before.records.items()})

    patch.setattr(Committer, "_commit", commit)


def draws_again_on_a_retry(patch: Patch) -> None:
    """A device that sends fresh noise about the same value with each attempt."""
    send = HttpTransport.send

    def redrawn(self: HttpTransport, body: bytes, timeout: float) -> Outcome:
        report, tried = from_json(body), self.__dict__.setdefault("tried", set())
        if report.id in tried:
            noise = bytes(byte ^ other for byte, other in zip(report.bits, os.urandom(99), strict=False))
            body = to_json(replace(report, bits=noise))
        tried.add(report.id)
        return send(self, body, timeout)

    patch.setattr(HttpTransport, "send", redrawn)


def counts_a_duplicate(patch: Patch) -> None:
    """A store that adds up its records as they are: quicker than to sort them."""
    patch.setattr("reticent_collector.stores.sorting.distinct", lambda records: records)


def sends_before_it_is_durable(patch: Patch) -> None:
    """A device that leaves its reports to the operating system to write: one sync less for each."""
    transaction = StateFile.transaction
    patch.setattr(
        StateFile,
        "transaction",
        lambda self, **how: transaction(self, **{**how, "durable": False}),
    )
    patch.setattr(StateFile, "wipe_log", lambda _: None)


def puts_a_value_into_a_tag(patch: Patch) -> None:
    """A device whose public tag depends on what it measured."""

    def telling(draws: Any, plan: Any, number: int, values: Mapping[str, object], segment: Any) -> Answer:
        honest = answer(draws, plan, number, values, segment)
        tag = str(next(iter(values.values()), "linux"))
        return honest._replace(report=replace(honest.report, segment={"os": tag}))

    patch.setattr("reticent.device.answers.answer", telling)


def corrects_sealed_rounds(patch: Patch) -> None:
    """A store that mends old results when it starts."""
    load = Store.stored_reports

    def mending(self: Store) -> int:
        with self.backend.writing() as transaction:
            transaction.execute("UPDATE counts SET ones = reports")
        return load(self)

    patch.setattr(Store, "stored_reports", mending)


FAULTS = {
    acknowledges_before_the_commit: "an acknowledged report is gone",
    draws_again_on_a_retry: "a report was drawn again",
    counts_a_duplicate: "counts are not those of the reports",
    sends_before_it_is_durable: "a report was drawn again|told and not listed",
    puts_a_value_into_a_tag: "a value has left the device",
    corrects_sealed_rounds: "a sealed round has changed",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_seeded_fault_is_found(fault: Any, monkeypatch: Patch) -> None:
    fault(monkeypatch)

    @seed(0)  # it finds each of them soon
    class Sequences(System):
        pass

    with pytest.raises(AssertionError, match=FAULTS[fault]):
        run_state_machine_as_test(Sequences, settings=FINDS)
