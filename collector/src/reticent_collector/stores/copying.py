"""Copies of a store in another one: its plans, keys, sealed rounds and results, and with care its open rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from reticent.errors import StoreError
from reticent_collector.stores.backend import (
    DamagedError,
    MetricDeletion,
    PeriodKey,
    ResultsTable,
    RoundGoneError,
    RoundInfo,
    SealedRounds,
    Steps,
)
from reticent_collector.stores.records import Records, RoundKey, batches
from reticent_collector.stores.store import Store


@dataclass
class Copied:
    """What a copy did, and what it could not do."""

    plans: int = 0
    keys: int = 0
    rounds: int = 0  #: sealed or pruned ones that were not there before
    same: int = 0  #: sealed rounds that were there before, with equal counts
    reports: int = 0  #: of all sealed rounds, compared in both stores
    periods: int = 0  #: of the table of results
    open_rounds: int = 0  #: whose reports were appended
    not_sealed: int = 0  #: rounds that were left, because they are not sealed
    problems: list[str] = field(default_factory=list)  #: a sentence each


def copy_store(
    source: Store,
    target: Store,
    *,
    unsealed: bool = False,
    progress: Callable[[float, float], None] = lambda done, total: None,
) -> Copied:
    """
    Copy what a store holds into another one; what is there already is compared and not changed.

    It can be interrupted at any point and done again. Sealed rounds never change, so both stores may be in use. With
    `unsealed` the reports of open rounds are appended too: then no collector may use either store meanwhile.
    """
    history = target.backend
    if not isinstance(history, SealedRounds):
        raise StoreError(f"{target.url}: takes no rounds of another store")
    copied = Copied()
    _copy_plans_and_keys(source, target, copied)
    rounds = list(reversed(source.rounds()))
    for place, info in enumerate(rounds):
        progress(place, len(rounds))
        try:
            _copy_round(source, target, history, info, unsealed, copied)
        except DamagedError as error:
            copied.problems.append(f"{_name(info.key)} is damaged in {source.url}: {error.reason}")
    if isinstance(source.backend, SealedRounds):
        for key in source.backend.pruned():
            copied.rounds += history.put_sealed(key, None)
    _copy_results(source, target, copied)
    return copied


def _copy_plans_and_keys(source: Store, target: Store, copied: Copied) -> None:
    there = set(target.plans())
    for plan in source.plans():
        target.register(plan)
        copied.plans += plan not in there
    known = {key.id: key for key in list(target.keys())}
    for key in list(source.keys()):
        other = known.get(key.id)
        if other is None:
            target.add_key(key)
            copied.keys += 1
        elif other.hash != key.hash:
            copied.problems.append(f"key {key.id} is another one in {target.url}")
        elif key.revoked_at is not None and other.active:
            target.revoke_key(key.id, key.revoked_at)
            copied.keys += 1
    for note in source.notes():
        target.put_note(note)
    deleted = source.deleted()
    if deleted and not isinstance(target.backend, MetricDeletion):
        listed = ", ".join(sorted({f"{metric} of plan {plan}" for plan, _, metric in deleted}))
        raise StoreError(f"{target.url}: cannot keep that {listed} of {source.url} was deleted")
    if isinstance(target.backend, MetricDeletion) and not deleted <= target.deleted():
        target.backend.delete_metrics(deleted)


def _copy_round(
    source: Store, target: Store, history: SealedRounds, info: RoundInfo, unsealed: bool, copied: Copied
) -> None:
    """Copy one round, and compare it in both stores."""
    count = source.backend.final(info.key)
    if count is None:
        if unsealed:
            _copy_open(source, target, info.key, copied)
        else:
            copied.not_sealed += 1
        return
    is_new = history.put_sealed(info.key, count)
    final = target.backend.final(info.key)
    if final is None or (final.reports, final.counts) != (count.reports, count.counts):
        what = "has other counts" if final else "is open or pruned"
        copied.problems.append(f"{_name(info.key)} is sealed in {source.url}, and {what} in {target.url}")
        return
    copied.rounds += is_new
    copied.same += not is_new
    copied.reports += count.reports


def _copy_open(source: Store, target: Store, key: RoundKey, copied: Copied) -> None:
    """
    Append the reports of a round that is not sealed, then what readers were shown of it.

    An id counts once, so a second copy changes nothing. Readers go on from the step that they were shown: a step of
    another store could differ from it by a few reports.
    """
    for records in batches(_records(source, key)):
        if target.append({key: records.tobytes()})[key].late:
            copied.problems.append(
                f"{_name(key)} is sealed in {target.url}; its reports in {source.url} are too late"
            )
            return
    if isinstance(source.backend, Steps) and isinstance(target.backend, Steps):
        step = source.backend.step(key)
        if step is not None:
            target.backend.put_step(key, *step)
    expected, found = source.counts(key), target.counts(key)
    if any(counts != found.get(tags) for tags, counts in expected.items()):
        copied.problems.append(
            f"{_name(key)} is open, and has other counts in {target.url}: is a collector in use?"
        )
        return
    copied.open_rounds += 1


def _records(source: Store, key: RoundKey) -> Iterator[Records]:
    """All records of a round that is not sealed, some perhaps twice."""
    try:
        yield from source.backend.records(key)
    except RoundGoneError:
        raise StoreError(f"{source.url}: {_name(key)} was sealed while it was copied; copy again") from None


def _copy_results(source: Store, target: Store, copied: Copied) -> None:
    """Copy the results of periods that have the same rounds in both stores; a collector writes the others."""
    table, other = source.table, target.table
    if table is None or other is None:
        return
    new = {period for name in {plan.name for plan in source.plans()} for period in other.written(name)}
    new = _equal_periods(source, target, table) - new
    for period in sorted(new):
        other.put_results(period, table.results(period), table.comparisons(period))
    overtaken = new - _equal_periods(source, target, table)  # rounds were sealed or pruned meanwhile
    for period in overtaken:
        other.drop_results(period)
    copied.periods += len(new) - len(overtaken)


def _equal_periods(source: Store, target: Store, table: ResultsTable) -> set[PeriodKey]:
    """The periods in a table of which all rounds, and all that they may be compared with, are in both stores."""
    ours, theirs = (
        {info.key for info in store.rounds() if info.state == "sealed"} for store in (source, target)
    )
    plans = {(plan.name, plan.version): plan for plan in source.plans()}
    differ = [
        (key.plan, plans[key[:2]].round(key.round).start) for key in ours ^ theirs if key[:2] in plans
    ]  # usually none
    written = {period for name in {plan.name for plan in plans.values()} for period in table.written(name)}
    return {
        period
        for period in written
        if not any(name == period.plan and start < period.end for name, start in differ)
    }


def _name(key: RoundKey) -> str:
    return f"round {key.round} of {key.plan} version {key.version}"
