"""check_store holds for every store of ours, and names the law that a broken one breaks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.shared.plans import SAMPLED

from reticent.errors import StoreError
from reticent.plan import Plan
from reticent_collector.counts import MeanCounts
from reticent_collector.stores import (
    Appended,
    Count,
    CountsByTags,
    Key,
    Layout,
    RoundInfo,
    RoundKey,
    SqliteBackend,
    Store,
    open_store,
)
from reticent_collector.testing import BrokenLawError, check_store


def test_memory_keeps_the_laws() -> None:
    check_store(lambda: open_store("memory:"), durable=False)


def test_sqlite_and_postgresql_keep_the_laws(url: str) -> None:
    check_store(lambda: open_store(url), readonly=lambda: open_store(url, readonly=True))
    check_store(lambda: open_store(url))  # a store may hold other things already


class SqliteStore(Store):
    """A store to break: in a file, over a backend that can be broken too."""

    kind = SqliteBackend

    def __init__(self, path: str) -> None:
        super().__init__(self.kind(path))


class Forgets(SqliteStore):
    """Acknowledges what it does not keep."""

    def __init__(self, path: str) -> None:
        super().__init__(":memory:")


class CountsTwice(SqliteStore):
    """Says accepted, and keeps nothing."""

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        return {
            key: Appended(accepted=len(group) // self.layout(key).width) for key, group in records.items()
        }


class TakesLateReports(SqliteStore):
    """Says accepted when it is too late."""

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        answers = super().append(records)
        return {
            key: Appended(accepted=answer.late) if answer.late else answer for key, answer in answers.items()
        }


class SealsAgain(SqliteStore):
    """Says that it sealed, whatever it did."""

    def seal(self, key: RoundKey) -> bool:
        super().seal(key)
        return True


class SealsTooLittle(SqliteStore):
    """Loses a report of the fleet at the seal."""

    def counts(self, key: RoundKey) -> CountsByTags:
        found = super().counts(key)
        if found and key not in self.unsealed():
            tags = next(iter(found))
            minutes = found[tags]["minutes"]
            assert isinstance(minutes, MeanCounts)
            found[tags]["minutes"] = MeanCounts(minutes.reports - 1, max(0, minutes.ones - 1))
        return found


class SortsWrong(SqliteStore):
    """Oldest round first."""

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        return super().rounds(plan, last)[::-1]


class IgnoresLast(SqliteStore):
    """All rounds, however few are asked for."""

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        return super().rounds(plan)


class ChangesPlans(SqliteStore):
    """Takes another plan under a version that is known."""

    def register(self, plan: Plan) -> None:
        try:
            super().register(plan)
        except StoreError:
            return


class MakesEmptyRounds(SqliteStore):
    """Opens a round for nothing."""

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        with self.backend.writing() as transaction:
            for key in records:
                self.backend._open_number(transaction, key)
        return super().append(records)


class KeepsRevoked(SqliteStore):
    """Revokes nothing."""

    def revoke_key(self, key_id: str, at: int) -> bool:
        return any(key.id == key_id for key in self.keys())


class LosesKeys(SqliteStore):
    """Has no keys."""

    def keys(self) -> list[Key]:
        return []


class CountsItselfOnly(SqliteStore):
    """Counts the first group of an open round, and not what comes later."""

    class kind(SqliteBackend):  # noqa: N801
        def records(self, key: RoundKey) -> Iterator[Any]:
            yield from itertools.islice(super().records(key), 1)


class CountsRepeats(SqliteStore):
    """Counts what is stored, not what is distinct."""

    class kind(SqliteBackend):  # noqa: N801
        def count(self, key: RoundKey, *, skip_bad: bool = False) -> Count:
            records = np.concatenate(list(self.records(key)))
            return Count(len(records), self.layout(key).counts(records))


class OverlooksClosing(SqliteStore):
    """Does not finish what another collector began to seal."""

    class kind(SqliteBackend):  # noqa: N801
        def unsealed(self) -> list[RoundKey]:
            return [info.key for info in self.rounds() if info.state == "open"]


class MixesMetrics(SqliteStore):
    """Has rounds in the counts of a metric that are not sealed."""

    class kind(SqliteBackend):  # noqa: N801
        def metric_counts(self, keys: Sequence[RoundKey], metric: str) -> dict[RoundKey, CountsByTags]:
            return {key: {} for key in keys} | super().metric_counts(keys, metric)


def test_a_store_that_writes_though_it_is_read_only_is_told(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'broken.db'}"
    with pytest.raises(BrokenLawError, match="register of a store that is read only must raise StoreError"):
        check_store(lambda: open_store(url), readonly=lambda: open_store(url))


@pytest.mark.parametrize(
    ("store", "law"),
    [
        (Forgets, "when the store is opened again"),
        (CountsTwice, "rounds\\(\\) has the stored reports"),
        (TakesLateReports, "reports on a sealed round are late"),
        (SealsAgain, "seal says False for a round that never was"),
        (SealsTooLittle, "counts are the same after sealing as before"),
        (SortsWrong, "rounds\\(\\) is sorted"),
        (IgnoresLast, "the n latest"),
        (ChangesPlans, "a plan cannot change under its version"),
        (MakesEmptyRounds, "an append without records makes no round"),
        (KeepsRevoked, "a key is revoked once, and alone"),
        (LosesKeys, "has each key as it was added"),
        (CountsItselfOnly, "counts\\(\\) equals count_reports"),
        (CountsRepeats, "counts\\(\\) equals count_reports"),
        (OverlooksClosing, "unsealed\\(\\) has the rounds"),
        (MixesMetrics, "metric_counts\\(\\) has one metric"),
    ],
)
def test_a_broken_store_is_told_its_law(
    store: Callable[[str], SqliteStore], law: str, tmp_path: Path
) -> None:
    with pytest.raises(BrokenLawError, match=law):
        check_store(lambda: store(str(tmp_path / "broken.db")))


@pytest.mark.parametrize("kind", ["sqlite", "lake"])
def test_a_sealed_round_of_sampled_answers_fits_together(tools: Any, tmp_path: Path, kind: str) -> None:
    """Each report answers some of the metrics: none is answered by all, and nothing is wrong with that."""
    plan = Plan.from_toml(SAMPLED)
    key, pack = RoundKey(plan.name, plan.version, 7), Layout(plan).pack
    store = open_store(f"{kind}:///{tmp_path / 'store'}")
    store.register(plan)
    store.append({key: b"".join(map(pack, tools.make_reports(plan, 7, 20)))})
    assert store.seal(key)
    assert store.verify() == []
    store.close()
