"""The lake as a store: segments in, counts out, and no word between collectors."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import numpy as np

from reticent.errors import StoreError
from reticent.stores.lake.counting import LOOKS, NOT_A_PART
from reticent.stores.lake.files import TEMPORARY, Files
from reticent.stores.lake.layout import COUNTS, FORMAT, LAKE, REPORTS, Part, folder_of, outermost
from reticent.stores.lake.memory import LakeRound, Own
from reticent.stores.lake.reader import LakeReader
from reticent.stores.records import Count, CountsByTags, Records, RoundKey
from reticent.stores.store import Appended, RoundInfo

_PARTS_AT_ONCE, _ROWS_AT_ONCE = 256, 1 << 20
_PAGE = bytes(4096)
"""What takes up room: on a full disk an empty file can still be made."""


class LakeStore(LakeReader):
    """
    A store of Parquet segments in a shared folder or bucket.

    `append` writes one segment per round and commit group, then looks whether the round is closing. If it is
    not, the segment is in every list of segments that is made later, so it counts. If it is, the list that
    was kept first tells whether it counts. So what is acknowledged is counted, and what is late is not.

    Two reports with one id are one: the collector that has seen the first does not store the second, and
    whoever counts the round takes each id once (`reticent.stores.lake.counting.distinct`).

    `_memory` guards what is known of open rounds and is held while a segment is written.
    """

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self._writer = secrets.token_hex(16)
        self._open: dict[RoundKey, LakeRound] = {}
        self._written: dict[RoundKey, int] = {}
        self._closed: set[RoundKey] = set()
        self._memory = threading.Lock()
        self._is_shut = False
        _prepare(files)
        with suppress(StoreError):  # who may only read can read
            for key in self.round_keys(REPORTS):
                if self.seals.is_sealed(key):
                    self.seals.sweep(key)

    # Records

    def append(self, records: Mapping[RoundKey, bytes]) -> dict[RoundKey, Appended]:
        """
        Put records into their open rounds, a segment per round; durable on return.

        When it raises, each round has all of its records or none, and to append them again changes nothing.
        """
        self._check_not_shut()
        groups = {key: self.layout(key).array(records[key]) for key in sorted(records) if records[key]}
        for key in groups:
            self._load(key)
        stored = {}
        with self._memory:
            for key, group in groups.items():
                stored[key] = self._store(key, group)
        return {key: _appended(groups.get(key), stored.get(key)) for key in records}

    def _store(self, key: RoundKey, group: Records) -> Records | None:
        """The records that were new, durable; None when the round is closed."""
        if key in self._closed:
            return None
        found = self._open.get(key) or LakeRound(self.layout(key))
        fresh = found.missing(group)
        try:
            segment = self._write(key, fresh) if len(fresh) else None
            late = self._is_late(key, segment)
        except BaseException:
            found.own.clear()  # the segment may be there or not: what is merged later must not span it
            raise
        if late:
            return None
        self._open[key] = found
        if segment is not None:
            found.add(fresh)
            found.wrote(segment, fresh)
            self._merge(key, found)
        return fresh

    def _write(self, key: RoundKey, records: Records) -> Part:
        number = self._written[key] = self._written.get(key, 0) + 1
        segment = Part(self._writer, number, number, len(records))
        self.files.put(f"{folder_of(key)}/{segment.name}", self.columns(key).encode(key, records))
        return segment

    def _is_late(self, key: RoundKey, segment: Part | None) -> bool:
        """Whether a segment that is durable by now does not count, because its round was closed before."""
        if not self.seals.is_closing(key):
            return False
        self._closed.add(key)
        if segment is not None and segment.name in self.seals.frozen(key):
            return False
        if segment is not None:
            with suppress(StoreError):  # it does not count, and is removed when the round is swept
                self.files.remove([f"{folder_of(key)}/{segment.name}"])
        return True

    def _merge(self, key: RoundKey, found: LakeRound) -> None:
        """
        Merge this writer's latest segments when they are many and small.

        The parts are removed only when the round was not closing after the merged one was durable: then any
        list that has a part has the merged one too, which covers it.
        """
        while parts := found.to_merge():
            try:
                whole = np.concatenate([self._records_of(key, part) for part in parts])
                merged = Part(self._writer, parts[0].segment.first, parts[-1].segment.last, len(whole))
                self.files.put(f"{folder_of(key)}/{merged.name}", self.columns(key).encode(key, whole))
                if self.seals.is_closing(key):
                    return
                self.files.remove(f"{folder_of(key)}/{part.segment.name}" for part in parts)
            except StoreError:  # what was appended is durable: nobody needs to know
                found.own.clear()
                return
            found.merged(merged)

    def _records_of(self, key: RoundKey, own: Own) -> Records:
        records = self.read(key, own.segment) if own.records is None else own.records
        if records is None:
            raise StoreError(f"{self.url}: {folder_of(key)}/{own.segment.name}: is gone")
        return records

    # Open rounds in memory

    def load_open_rounds(self) -> int:
        """Bring all open rounds into memory; returns how many reports they hold."""
        for key in self.unsealed():
            self._load(key)
        return self.open_reports

    @property
    def open_reports(self) -> int:
        """Reports of open rounds that this process knows of."""
        return sum(len(found) for found in list(self._open.values()))

    @property
    def nbytes(self) -> int:
        """Memory that open rounds hold."""
        return sum(found.nbytes for found in list(self._open.values()))

    def _load(self, key: RoundKey) -> LakeRound | None:
        """A round that is not closed, brought into memory if it is not there; None when there is none."""
        found = self._open.get(key)
        if found is None and key not in self._closed:
            if self.seals.is_closing(key):
                self._closed.add(key)
                return None
            loaded = LakeRound(self.layout(key))
            if self._catch_up(key, loaded):
                with self._memory:
                    found = self._open.setdefault(key, loaded)
        return found

    def _catch_up(self, key: RoundKey, found: LakeRound) -> bool:
        """Take in the segments that are there and not in memory; False when there are none at all."""
        for _ in range(LOOKS):
            segments, others = self.seals.listed(key)
            self.files.settle(folder_of(key))
            bad = dict.fromkeys(others, NOT_A_PART)
            unseen = [segment for segment in outermost(segments) if not found.has(segment)]
            gone = sum(self._take(key, found, batch, bad) for batch in _batches(unseen))
            if not gone:
                found.bad = bad
                return bool(segments or others)
        raise StoreError(f"{self.url}: {folder_of(key)}: segments vanish while they are being read")

    def _take(self, key: RoundKey, found: LakeRound, batch: Sequence[Part], bad: dict[str, str]) -> int:
        """Take in some segments; notes those that are bad, and says how many are gone."""
        gone = 0
        texts = self.files.read_all(f"{folder_of(key)}/{segment.name}" for segment in batch)
        for segment, data in zip(batch, texts, strict=True):
            if data is None:
                gone += 1
                continue
            try:
                records = self.columns(key).decode(key, data, segment.rows)
            except StoreError as error:
                bad[segment.name] = str(error)
                continue
            with self._memory:
                if not found.released and not found.has(segment):
                    found.add(found.missing(records))
                    found.saw(segment)
        return gone

    def _forget(self, key: RoundKey) -> None:
        """Let go of a round that is sealed."""
        self._closed.add(key)
        if key in self._open:
            with self._memory:
                self._open.pop(key, None)

    # Rounds

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """
        The rounds of a plan, latest first; at most the `last` ones of each plan.

        While a round is open, `reports` is exact in a collector that holds it in memory; others are told what
        the names of segments say, which has a report twice that two collectors took.
        """
        sealed = set(self.round_keys(COUNTS, plan))
        keys = sealed | set(self.unsealed(plan))
        by_plan: dict[str, list[RoundKey]] = {}
        for key in sorted(keys, key=lambda key: (key.plan, -key.round, -key.version)):
            by_plan.setdefault(key.plan, []).append(key)
        return [self._info(key) for chosen in by_plan.values() for key in chosen[:last]]

    def _info(self, key: RoundKey) -> RoundInfo:
        final = self.final(key)
        if final is None:
            segments, _ = self.seals.listed(key)
            stored = sum(segment.rows for segment in outermost(segments))
            found = self._open.get(key)
            if found is not None and not found.released:
                self._catch_up(key, found)
            final = self.final(key)
            if final is None:
                state = "closing" if self.seals.is_closing(key) else "open"
                return RoundInfo(key, state, stored if found is None else len(found))  # type: ignore[arg-type]
        return RoundInfo(key, "sealed", final.reports)

    # Counts

    def counts(self, key: RoundKey) -> CountsByTags:
        """
        The counts of a round: final when it is sealed, provisional while it is open.

        Provisional counts have each id once. Of different reports with one id, which only forgery makes, they
        have the one that this process saw first; `count` and `seal` have the smallest.
        """
        self._check_not_shut()
        final = self.final(key)
        if final is None:
            found = self._load(key) or LakeRound(self.layout(key))
            there = found.released or self._catch_up(key, found)
            final = self.final(key)
            if final is None and there:
                self.refuse(key, found.bad)
                return found.counts()
        return dict(final.counts) if final else {}

    def final(self, key: RoundKey) -> Count | None:
        """What a sealed round comes to; None when it is not sealed."""
        final = super().final(key)
        if final is not None:
            self._forget(key)
        return final

    def seal(self, key: RoundKey, *, skip_bad: bool = False) -> bool:
        """
        Seal a round; False when it was sealed already, or never opened.

        It can be done again from the start at any time, by anybody: every step is a file that is made once.
        """
        self._check_not_shut()
        if self.final(key) is not None:
            self.seals.sweep(key)
            return False
        if not self.seals.is_closing(key) and not any(self.seals.listed(key)):
            return False
        self.seals.close(key)
        self.seals.frozen(key)
        self._release(key)
        sealed = self.seals.publish(key, self.count(key, skip_bad=skip_bad))
        self.final(key)
        self.seals.sweep(key)
        return sealed

    def _release(self, key: RoundKey) -> None:
        """Nothing more is appended: the memory of the ids is better used for counting."""
        self._closed.add(key)
        known = self._open.get(key)
        if known is not None:
            known.counts()
            with self._memory:
                known.release()

    # Upkeep

    def ping(self) -> None:
        """Raise `StoreError` when the lake cannot be written just now, or is not where it was."""
        self._check_not_shut()
        if self.files.read(LAKE) is None:
            raise StoreError(f"{self.url}: {LAKE} is gone")
        path = f"{TEMPORARY}/{secrets.token_hex(16)}"
        self.files.put(path, _PAGE)
        self.files.remove([path])

    def close(self) -> None:
        """Let go of connections."""
        self._is_shut = True
        self.files.close()

    def _check_not_shut(self) -> None:
        if self._is_shut:
            raise StoreError(f"{self.url}: the store was closed")


def _prepare(files: Files) -> None:
    """Make a lake where there is nothing; refuse what is another program's, and leave it as it is."""
    there = set(files.names("")) - {TEMPORARY}
    check_format(files, there)
    files.open()
    if LAKE not in there:
        files.put_new(LAKE, json.dumps({"reticent": "lake", "format": FORMAT}).encode())


def check_format(files: Files, there: set[str]) -> None:
    """Raise `StoreError` when what is there is not a lake of this format."""
    data = files.read(LAKE)
    if data is None:
        if there:
            raise StoreError(f"{files.url}: expected a lake or an empty folder; it was left as it is")
        return
    try:
        found = json.loads(data)
        kind, version = found["reticent"], found["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{files.url}: {LAKE} is damaged: {type(error).__name__}") from error
    if (kind, version) != ("lake", FORMAT):
        raise StoreError(f"{files.url}: expected a lake of format {FORMAT}, got {kind} of format {version}")


def _batches(segments: Sequence[Part]) -> Iterator[list[Part]]:
    """Segments to read at once: not too many, nor too many rows."""
    batch: list[Part] = []
    for segment in segments:
        batch.append(segment)
        if len(batch) == _PARTS_AT_ONCE or sum(each.rows for each in batch) >= _ROWS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _appended(given: Records | None, fresh: Records | None) -> Appended:
    if given is None:
        return Appended()
    if fresh is None:
        return Appended(late=len(given))
    return Appended(accepted=len(fresh), duplicate=len(given) - len(fresh))
