"""The lake as a backend: parts in, counts out, without communication between collectors."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import ClassVar, NamedTuple

import numpy as np

from reticent.errors import StoreError
from reticent_collector.stores.backend import (
    DamagedError,
    Repair,
    RoundGoneError,
    RoundInfo,
    State,
    StoreGoneError,
)
from reticent_collector.stores.records import Count, CountsByTags, Records, RoundKey, latest
from reticent_lake.store.counting import LOOKS, Arrow, BadFileError, CountingEngine, count_round
from reticent_lake.store.files import TEMPORARY, Files, UnusablePathError
from reticent_lake.store.layout import (
    COUNTS,
    DAMAGED,
    FORMAT,
    LAKE,
    REPORTS,
    SEALS,
    Part,
    counts_path,
    folder_of,
    outermost,
    plan_path,
)
from reticent_lake.store.leases import Leases
from reticent_lake.store.seals import GONE, Seals
from reticent_lake.store.tables import LakeTables
from reticent_lake.store.upkeep import NOT_A_FOLDER, is_not_a_folder, problems_of, repair

_ROUNDS_AT_ONCE = 256  # whose counts are read at once
_PAGE = bytes(4096)  # what takes up room: on a full disk an empty file can still be made


class Own(NamedTuple):
    """A part that this writer wrote."""

    part: Part
    merges: int  #: how often its records were merged
    records: Records | None  #: while it is small and not merged, so that merging need not read it


class LakeBackend(LakeTables):
    """
    Parquet files in a shared folder or object store, written by any number of collectors.

    `put` writes one part per round and commit group, then checks whether the round is closing. If it is not,
    the part is in every list of parts that is made later, so it counts. If it is, the list that was stored
    first decides. So what is acknowledged is counted, and what is late is not.

    Two reports with one id are one: counting takes each id once (`reticent_collector.stores.sorting.distinct`).

    `readonly` only reads files: nothing is made, swept or tested, and no right to write is needed.
    """

    merged_at_once: ClassVar[int] = 64  #: most parts of one writer that are merged into one
    most_rows: ClassVar[int] = 1 << 20  #: enough rows to merge; a part of more than half is left

    def __init__(self, files: Files, *, readonly: bool = False) -> None:
        super().__init__(files, readonly)
        self.seals = Seals(files)
        self.engine: CountingEngine | None = (
            None  # what counts a round that is sealed here; None: PyArrow and NumPy
        )
        self._writer = secrets.token_hex(16)
        self.leases = Leases(files, self._writer)
        self._written: dict[RoundKey, int] = {}
        self._own: dict[RoundKey, list[Own]] = {}  # the latest parts of this writer, without a gap
        self._closed: set[RoundKey] = set()
        self._witness: dict[RoundKey, Part] = {}  # a part of each open round, whose removal is noticed
        there = set(files.names(""))
        if readonly and not there:
            raise StoreError(
                f"{self.url}: there is no lake.\n  Hint: give the folder that reticent serve uses"
            )
        self._check_format(there if readonly else there - {TEMPORARY})
        if not readonly:
            files.open()
            if LAKE not in there:
                document = {"reticent": "lake", "format": FORMAT, "id": secrets.token_hex(16)}
                files.put_new(LAKE, json.dumps(document).encode())
            with suppress(StoreError):  # without the right to write, reading still works
                for key in self.seals.round_keys(REPORTS):
                    if self.seals.is_sealed(key):
                        self.seals.sweep(key)
        self._identity = files.read(LAKE)

    def _check_format(self, there: set[str]) -> None:
        """Refuse a folder of another program or format, without changing it."""
        data = self.files.read(LAKE)
        if data is None:
            if there:
                raise StoreError(f"{self.url}: expected a lake or an empty folder; it was not changed")
            return
        try:
            document = json.loads(data)
            kind, version = document["reticent"], document["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{self.url}: {LAKE} is damaged: {type(error).__name__}") from error
        if kind == "lake" and isinstance(version, int) and version > FORMAT:
            raise StoreError(
                f"{self.url}: was written by a newer version of reticent: its format is number {version}, and this"
                f" one knows {FORMAT}; it was not changed.\n  Hint: use that version, or give a new folder"
            )
        if (kind, version) != ("lake", FORMAT):
            raise StoreError(
                f"{self.url}: expected a lake of format {FORMAT}, got {kind} of format {version}"
            )

    # RoundParts

    def put(self, groups: Mapping[RoundKey, Records]) -> list[RoundKey]:
        """Put a part into each open round; durable on return, and merged with others when they are many."""
        self._check_writable()
        stored = []
        for key, records in groups.items():
            if key in self._closed:
                continue
            try:
                if not self._is_where_it_was(key):  # swept, because it is sealed
                    self._closed.add(key)
                    continue
                number = self._written[key] = self._written.get(key, 0) + 1
                part = Part(self._writer, number, number, len(records))
                self.files.put(f"{folder_of(key)}/{part.name}", self.columns(key).encode(key, records))
                # Only after the part is durable: closing lists the parts after `closing.json` is made, so either
                # the list has this part, or this check sees that the round is closing.
                late = self.seals.is_closing(key) and self._is_late(key, part)
            except BaseException as error:
                self._begin_anew()  # the part may exist or not
                if isinstance(error, UnusablePathError):
                    raise DamagedError(str(error), key) from error
                raise
            if late:
                continue
            stored.append(key)
            small = len(records) <= self.most_rows // self.merged_at_once
            self._own.setdefault(key, []).append(Own(part, 0, records if small else None))
            self._merge(key)
            self._witness[key] = self._own[key][-1].part if self._own[key] else part
        return stored

    def _begin_anew(self) -> None:
        """Write as another writer: the numbers of one have no gap, so that a removed part is noticed."""
        self._writer = secrets.token_hex(16)
        self._written.clear()
        self._own.clear()

    def _is_where_it_was(self, key: RoundKey) -> bool:
        """Whether acknowledged parts still exist; False when the round was sealed, or `StoreGoneError`."""
        witness = self._witness.get(key)
        if witness is None:
            self._check_is_same_lake()
            return True
        if self.files.has(f"{folder_of(key)}/{witness.name}"):
            return True
        if self.seals.is_closing(key):
            return False
        parts, _ = self.seals.listed(key)
        del self._witness[key]
        for part in parts:
            if part.covers(witness):  # merged by its writer
                self._witness[key] = part
                return True
        if witness.name in self.seals.left_out(key):
            return True
        raise self._gone(f"{folder_of(key)}/{witness.name} was removed, and acknowledged reports with it,")

    def _check_is_same_lake(self) -> None:
        if self.files.read(LAKE) != self._identity:
            raise self._gone(f"{LAKE} was removed or replaced")

    def _gone(self, what: str) -> StoreGoneError:
        return StoreGoneError(
            f"{self.url}: {what} while it was in use; no more reports are acknowledged.\n"
            "  Hint: restore what was there, or accept the loss, then start the collector again"
        )

    def _is_late(self, key: RoundKey, part: Part) -> bool:
        """Whether a durable part does not count, because its round was closed before."""
        self._closed.add(key)
        if part.name in self.seals.frozen(key):
            return False
        with suppress(StoreError):  # it does not count, and is removed when the round is swept
            self.files.remove([f"{folder_of(key)}/{part.name}"])
        return True

    def _merge(self, key: RoundKey) -> None:
        """
        Merge this writer's latest parts that are small and equally often merged, when they are many or large together.

        They are removed only if the round was not closing after the merged part was durable: then any list
        that has one of them has the merged part too, which covers it.
        """
        own = self._own[key]
        while small := self._to_merge(own):
            try:
                records = [
                    self.read(key, own_part.part) if own_part.records is None else own_part.records
                    for own_part in small
                ]
                if any(some is None for some in records):
                    raise StoreError(f"{self.url}: {folder_of(key)}: parts to merge are gone")
                whole = np.concatenate([some for some in records if some is not None])
                merged = Part(self._writer, small[0].part.first, small[-1].part.last, len(whole))
                self.files.put(f"{folder_of(key)}/{merged.name}", self.columns(key).encode(key, whole))
                if self.seals.is_closing(key):
                    return
                self.files.remove(f"{folder_of(key)}/{own_part.part.name}" for own_part in small)
            except StoreError:  # what was appended is durable: merging can fail silently
                own.clear()
                return
            own[-len(small) :] = [Own(merged, small[0].merges + 1, None)]

    def _to_merge(self, own: Sequence[Own]) -> list[Own]:
        """The latest parts if they are to be merged: a round has few parts, and each row is written few times."""
        run: list[Own] = []
        rows = 0
        for own_part in reversed(own):
            if own_part.part.rows > self.most_rows // 2 or own_part.merges != own[-1].merges:
                break
            run.insert(0, own_part)
            rows += own_part.part.rows
            if len(run) == self.merged_at_once or rows >= self.most_rows:
                return run
        return []

    def read(self, key: RoundKey, part: Part) -> Records | None:
        """The records of a part; None when it is gone, `StoreError` when it is bad."""
        data = self.files.read(f"{folder_of(key)}/{part.name}")
        return None if data is None else self.columns(key).decode(key, data, part.rows)

    def records(self, key: RoundKey) -> Iterator[Records]:
        """The records of the parts to count in an unsealed round; of parts that are merged meanwhile perhaps twice."""
        done: set[str] = set()
        for _ in range(LOOKS):
            if self.seals.is_sealed(key) or not self.seals.listed(key)[0]:
                raise RoundGoneError
            left = [name for name in self.seals.countable(key) if name not in done]
            if not left:
                self.refuse(key, self.seals.gaps(key))
                return
            for name in left:
                part = Part.parse(name)
                records = None if part is None else self.read(key, part)
                if records is None:  # merged with others: list again
                    break
                done.add(name)
                yield records
        raise StoreError(f"{self.url}: {folder_of(key)}: parts vanish while they are being read")

    # Which rounds there are

    def unsealed(self, plan: str | None = None) -> list[RoundKey]:
        """The rounds that are open or closing."""
        folders = sorted(self.seals.round_keys(REPORTS, plan))
        known = {*self.plan_paths(), *self._texts} if folders else set()
        sealed = set(self.seals.round_keys(COUNTS, plan)) if folders else set()
        unsealed = []
        for key in folders:
            if key not in sealed and plan_path(key.plan, key.version) in known:
                with suppress(UnusablePathError):  # it cannot be read or sealed: `rounds` has the reason
                    # A closing round had reports, even if it lost them: sealing it says so.
                    has_reports = self.seals.listed(key)[0] or self.seals.is_closing(key)
                    if has_reports and not self.seals.is_pruned(key):
                        unsealed.append(key)
        return unsealed

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of registered plans, latest first, at most `last` of each plan; open ones with stored rows."""
        known = {*self.plan_paths(), *self._texts}
        keys = {*self.seals.round_keys(COUNTS, plan), *self.seals.round_keys(REPORTS, plan)}
        rounds = []
        for key in latest((key for key in keys if plan_path(key.plan, key.version) in known), last):
            try:
                info = self._info(key)
            except DamagedError as error:
                info = RoundInfo(key, "sealed", 0, str(error))
            except UnusablePathError as error:
                info = RoundInfo(key, "open", 0, str(error))
            if info is not None:
                rounds.append(info)
        return rounds

    def _info(self, key: RoundKey) -> RoundInfo | None:
        reports = self.seals.reports(key)
        if reports is None:
            parts, _ = self.seals.listed(key)
            state: State = "closing" if self.seals.is_closing(key) else "open"
            reports = self.seals.reports(key)  # once more: parts are swept as soon as a round is sealed
        if reports is not None:
            return RoundInfo(key, "sealed", reports)
        if parts:
            self._witness.setdefault(key, outermost(parts)[0])  # its removal is noticed by the next put
            removed = next(iter(self.seals.gaps(key)), "")
            damage = f"{self.url}: {folder_of(key)}/{removed}: {GONE}" if removed else ""
            return RoundInfo(key, state, sum(part.rows for part in outermost(parts)), damage)
        if is_not_a_folder(self, key):
            return RoundInfo(key, "open", 0, f"{self.url}: {folder_of(key)}: {NOT_A_FOLDER}")
        if state == "closing" and not self.seals.is_pruned(key):
            lost = self.seals.countable(key)
            return RoundInfo(key, state, 0, f"{self.url}: {folder_of(key)}/{lost[0]}: {GONE}" if lost else "")
        return None

    def state(self, key: RoundKey) -> State | None:
        """The state of a round; None when there is none."""
        try:
            if key not in self._closed and not self.seals.is_closing(key):
                return "open" if self.seals.listed(key)[0] else None
            self._closed.add(key)
            is_sealed = self.final(key) is not None or self.seals.is_pruned(key)
        except UnusablePathError as error:
            raise DamagedError(str(error), key) from error
        return "sealed" if is_sealed else "closing"

    # Counts

    def parts(self, key: RoundKey) -> list[str]:
        """The paths of the parts to count in an unsealed round; one can vanish when it is merged: list again then."""
        if self.seals.is_sealed(key):
            return []
        return [f"{folder_of(key)}/{name}" for name in self.seals.countable(key)]

    def count(self, key: RoundKey, *, skip_bad: bool = False) -> Count:
        """Count a round from its parts; bad ones are refused by name, or left out and listed with `skip_bad`."""
        if self.seals.is_pruned(key):
            raise RoundGoneError
        try:
            engine = self.engine or Arrow(folder=self.files.scratch)
            count, _, _ = count_round(self, key, engine, skip_bad=skip_bad)
            return count
        except BadFileError as error:
            self.refuse(key, error.names)
            raise

    def refuse(self, key: RoundKey, bad: Mapping[str, str]) -> None:
        """Raise `DamagedError` about the first bad file, if there is one."""
        for name, reason in bad.items():
            raise DamagedError(
                f"{self.url}: {folder_of(key)}/{name}: {reason}\n"
                "  Hint: reticent store check lists all such files; reticent store repair sets them aside",
                key,
            )

    def sweep(self) -> None:
        """Nothing to do: opening the lake sweeps sealed rounds."""

    def repair(self, key: RoundKey, *, dry: bool) -> Repair | None:
        """What can be done about a damaged round, and without `dry` do it; None when nothing is wrong."""
        if not dry:
            self._check_writable()
        return repair(self, key, dry=dry)

    def prune(self, key: RoundKey) -> bool:
        """Remove a sealed round's counts, and what a repair moved; what is put later is late. False when not sealed."""
        self._check_writable()
        if self.files.has(counts_path(key)):  # which may be damaged
            self.drop_results_with(key)  # first: results without counts could not be checked
            self.seals.sweep(key)
            moved = folder_of(key, DAMAGED)
            for name in self.files.names(moved):
                with suppress(StoreError):  # a folder in place of a part
                    self.files.remove([f"{moved}/{name}"])
            self.files.clear(moved)
        return self.seals.prune(key)

    def final(self, key: RoundKey) -> Count | None:
        """The counts of a sealed round; None when it is not sealed."""
        return self.seals.final(key, self.layout(key).plan)

    def metric_counts(self, keys: Sequence[RoundKey], metric: str) -> dict[RoundKey, CountsByTags]:
        """The counts of one metric in those of the rounds that are sealed; no other metric is decoded."""
        counts: dict[RoundKey, CountsByTags] = {}
        for start in range(0, len(keys), _ROUNDS_AT_ONCE):
            plans = {key: self.layout(key).plan for key in keys[start : start + _ROUNDS_AT_ONCE]}
            counts |= self.seals.metric_counts(plans, metric)
        return counts

    def claim(self, key: RoundKey) -> AbstractContextManager[bool]:
        """Whether to seal a round here: False while another collector does."""
        self._check_writable()
        return self.leases.held(key)

    def close_round(self, key: RoundKey) -> bool:
        """Begin to seal: what is put from now on is late, unless the list of parts has it."""
        self._check_writable()
        if self.final(key) is not None:
            self.seals.sweep(key)
            return False
        if self.seals.is_pruned(key) or not (self.seals.is_closing(key) or self.seals.listed(key)[0]):
            return False
        if not self.seals.is_closing(key):
            self.refuse(key, self.seals.gaps(key))
        self.seals.close(key)  # first: a part put after the list is made finds the round closing
        self.seals.frozen(key)
        self._closed.add(key)
        return True

    def publish(self, key: RoundKey, count: Count) -> bool:
        """Seal: the counts are final; then sweep. False when another process was first."""
        self._check_writable()
        # A process whose clock is ahead may have written the day without this round. The day is not written again
        # before the counts are there: a round that is not sealed keeps its day open.
        if not self.seals.is_sealed(key):
            self.drop_results_with(key)
        sealed = self.seals.publish(key, count)
        self.final(key)  # before the parts go, the counts can be read back
        self._own.pop(key, None)
        self.seals.sweep(key)
        return sealed

    def pruned(self) -> list[RoundKey]:
        """The rounds whose counts were removed for ever."""
        return sorted(key for key in self.seals.round_keys(SEALS) if self.seals.is_pruned(key))

    def put_sealed(self, key: RoundKey, count: Count | None) -> bool:
        """Make a round that is sealed with these counts, or pruned without; False when there is such a round."""
        self._check_writable()
        if self.seals.is_sealed(key) or self.seals.listed(key)[0]:
            return False
        self.drop_results_with(key)
        self.seals.close(key)  # as a seal does: what is put from now on is late, whoever finishes it
        if self.seals.frozen(key):
            raise StoreError(f"{self.url}: round {key.round} of {key.plan} got reports while it was copied")
        if count is None:
            return self.seals.mark_pruned(key)
        return self.seals.publish(key, count)

    # Upkeep

    def verify(self) -> list[str]:
        """The problems of the lake, a sentence each; empty when there is none. Changes nothing."""
        return problems_of(self)

    def ping(self) -> None:
        """Raise `StoreError` when the lake cannot be written at the moment, or is not where it was."""
        self._check_writable()
        self._check_is_same_lake()
        path = f"{TEMPORARY}/{secrets.token_hex(16)}"
        self.files.put(path, _PAGE)
        self.files.remove([path])
