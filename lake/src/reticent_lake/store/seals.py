"""The steps from an open round to a sealed one, each a file that is made once, by any process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from reticent.errors import ParameterError, StoreError
from reticent.plan import Plan
from reticent_collector.stores.backend import DamagedError
from reticent_collector.stores.records import Count, CountsByTags, RoundKey, counts_of_rows
from reticent_lake.store.files import Files, UnusablePathError
from reticent_lake.store.layout import (
    LEFT_OUT,
    SEALS,
    Part,
    counts_path,
    folder_of,
    missing_groups,
    outermost,
    seal_path,
    value_of,
)

_REMEMBERED = 256
GONE = "is gone, and its reports with it"


class Seals:
    """
    The files that close, freeze and seal a round, in this order, and are never changed.

    | file | made when | content |
    |---|---|---|
    | `closing.json` | sealing begins | none: what is not in `parts.json` is late |
    | `parts.json` | a process first sees `closing.json` | the parts that count |
    | `round=N.json` | they are counted | the final counts |
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._final: dict[RoundKey, Count] = {}  # the latest that were asked for
        self._reports: dict[RoundKey, int] = {}  # of sealed rounds

    # Rounds and their parts

    def listed(self, key: RoundKey) -> tuple[list[Part], list[str]]:
        """The existing parts of a round that are not left out, and the names that are not the lake's."""
        names = self._files.names(folder_of(key))
        left_out = {name.removesuffix(LEFT_OUT) for name in names if name.endswith(LEFT_OUT)}
        parsed = {name: Part.parse(name.removesuffix(LEFT_OUT)) for name in names}
        strays = [name for name, part in parsed.items() if part is None and not name.startswith((".", "_"))]
        return [part for name, part in parsed.items() if part and name == part.name not in left_out], strays

    def left_out(self, key: RoundKey) -> dict[str, str]:
        """The parts that a repair left out, and why."""
        reasons = {}
        for name in self._files.names(folder_of(key)):
            if name.endswith(LEFT_OUT):
                data = self._files.read(f"{folder_of(key)}/{name}") or b"no reason is known"
                reasons[name.removesuffix(LEFT_OUT)] = data.decode(errors="replace")
        return reasons

    def leave_out(self, key: RoundKey, name: str, reason: str) -> None:
        """Leave a part out for ever."""
        self._files.put_new(f"{folder_of(key)}/{name}{LEFT_OUT}", reason.encode())

    def countable(self, key: RoundKey) -> list[str]:
        """The names of the parts that count, without those that another part covers."""
        names = self.kept(key)
        if names is None:
            parts, _ = self.listed(key)
        else:
            left_out = self.left_out(key)
            parts = [part for name in names if name not in left_out and (part := Part.parse(name))]
        return [part.name for part in outermost(parts)]

    def gaps(self, key: RoundKey) -> dict[str, str]:
        """The groups of a round that were removed by hand, as names of parts, with the reason."""
        missing = self._missing(key)
        if missing:  # a list that is made while parts are written and merged may lack some
            missing &= self._missing(key)
        return dict.fromkeys(sorted(missing), GONE)

    def _missing(self, key: RoundKey) -> set[str]:
        """What `gaps` says by one list of the parts."""
        names = [*self._files.names(folder_of(key)), *(self.kept(key) or [])]
        parts = (Part.parse(name.removesuffix(LEFT_OUT)) for name in names)
        return {part.name for part in missing_groups(part for part in parts if part is not None)}

    def round_keys(self, top: str, plan: str | None = None) -> Iterator[RoundKey]:
        """The rounds that have a folder or a file below `reports` or `counts`."""
        for plan_folder in self._files.names(top):
            name = value_of("plan", plan_folder)
            if name is None or plan not in (None, name):
                continue
            for version_folder in self._files.names(f"{top}/{plan_folder}"):
                version = value_of("version", version_folder)
                if version is None:
                    continue
                for file in self._files.names(f"{top}/{plan_folder}/{version_folder}"):
                    number = value_of("round", file)
                    if number is not None:
                        yield RoundKey(name, int(version), int(number))

    # Closing and freezing

    def is_closing(self, key: RoundKey) -> bool:
        """Whether sealing a round has begun, perhaps long ago."""
        return self._files.read(seal_path(key, "closing")) is not None

    def close(self, key: RoundKey) -> None:
        """Begin to seal: an append after this asks `frozen` whether it still counts."""
        self._files.put_new(seal_path(key, "closing"), b"{}")

    def frozen(self, key: RoundKey) -> list[str]:
        """
        The names of the files that count in a closing round.

        The first caller lists the folder, after `closing.json` was made; the list that is stored first is valid
        for all processes.
        """
        kept = self.kept(key)
        if kept is None:
            parts, _ = self.listed(key)
            names = sorted(part.name for part in parts)
            self._files.settle(folder_of(key))  # after a power cut, all files of the list exist
            self._files.put_new(seal_path(key, "parts"), json.dumps({"parts": names}).encode())
            kept = self.kept(key)
        else:  # its maker may not have synced it yet: what is late or counted by it must stay so
            self._files.settle(folder_of(key, SEALS))
        if kept is None:
            raise StoreError(f"{self._files.url}: {seal_path(key, 'parts')}: is gone")
        return kept

    def kept(self, key: RoundKey) -> list[str] | None:
        """The same, or None when it is not stored yet; changes nothing."""
        data = self._files.read(seal_path(key, "parts"))
        try:
            return None if data is None else [str(name) for name in json.loads(data)["parts"]]
        except (ValueError, KeyError, TypeError) as error:
            message = f"{self._files.url}: {seal_path(key, 'parts')}: is damaged: {type(error).__name__}"
            raise DamagedError(message, key) from error

    # Counts

    def is_sealed(self, key: RoundKey) -> bool:
        """Whether the counts of a round exist, or existed until they were pruned."""
        return key in self._reports or self._files.read(counts_path(key)) is not None or self.is_pruned(key)

    def is_pruned(self, key: RoundKey) -> bool:
        """Whether the counts of a round were removed for ever."""
        return self._files.read(seal_path(key, "pruned")) is not None

    def mark_pruned(self, key: RoundKey) -> bool:
        """Keep a round closed without counts; False when it is marked already."""
        return self._files.put_new(seal_path(key, "pruned"), b"{}")

    def prune(self, key: RoundKey) -> bool:
        """Remove the counts of a sealed round; it stays closed. False when there are none."""
        self._final.pop(key, None)
        self._reports.pop(key, None)
        if not self._files.has(counts_path(key)):
            return False
        self.mark_pruned(key)  # first: without either, it would be sealed again
        self._files.remove([counts_path(key)])
        self._files.settle(counts_path(key).rpartition("/")[0])
        return True

    def final(self, key: RoundKey, plan: Plan) -> Count | None:
        """The counts of a sealed round; None when it is not sealed."""
        count = self._final.get(key)
        if count is None:
            data = self._files.read(counts_path(key))
            if data is None:
                return None
            with self._damage(key):
                document = json.loads(data)
                counts = counts_of_rows(plan, map(_row, document["counts"]))
                count = Count(int(document["reports"]), counts, dict(document["left_out"]))
            for old in list(self._final)[: 1 - _REMEMBERED]:  # other threads change it too
                self._final.pop(old, None)
            self._final[key] = count
        return count

    def reports(self, key: RoundKey) -> int | None:
        """The number of reports of a sealed round; None when it is not sealed. Its counts are not decoded."""
        if key not in self._reports:
            data = self._files.read(counts_path(key))
            if data is None:
                return None
            with self._damage(key):
                document = json.loads(data)
                for row in document["counts"]:
                    _row(row)
                self._reports[key] = int(document["reports"])
        return self._reports[key]

    def metric_counts(self, plans: Mapping[RoundKey, Plan], metric: str) -> dict[RoundKey, CountsByTags]:
        """The counts of one metric in those rounds that are sealed."""
        counts = {}
        files = self._files.read_all(map(counts_path, plans))
        for (key, plan), data in zip(plans.items(), files, strict=True):
            if data is not None:
                with self._damage(key):
                    if isinstance(data, UnusablePathError):
                        raise ValueError(data)
                    rows = (row for row in json.loads(data)["counts"] if row["metric"] == metric)
                    counts[key] = counts_of_rows(plan, map(_row, rows))
        return counts

    @contextmanager
    def _damage(self, key: RoundKey) -> Iterator[None]:
        """Turn errors about the file of a sealed round into `DamagedError`."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, ParameterError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            message = f"{self._files.url}: {counts_path(key)}: is damaged: {reason}"
            raise DamagedError(message, key) from error

    def publish(self, key: RoundKey, count: Count) -> bool:
        """Seal: the counts are final; False when another process was first."""
        if self.is_pruned(key):
            return False
        rows = [
            {"tags": tags, "metric": metric, "reports": reports, "ones": ones}
            for tags, metric, reports, ones in count.rows()
        ]
        left_out = dict(sorted(count.left_out.items()))
        document = {**key._asdict(), "reports": count.reports, "left_out": left_out, "counts": rows}
        sealed = self._files.put_new(counts_path(key), json.dumps(document).encode())
        if sealed and self.is_pruned(key):  # sealed and pruned by another process since the first check
            self._files.remove([counts_path(key)])
            return False
        return sealed

    def sweep(self, key: RoundKey) -> None:
        """Remove the parts of a round whose counts exist, except damaged ones that were left out."""
        parts, _ = self.listed(key)
        if parts:
            self._files.settle(counts_path(key).rpartition("/")[0])
            self._files.remove(f"{folder_of(key)}/{part.name}" for part in parts)
        self._files.clear(folder_of(key))


def _row(row: Mapping[str, Any]) -> tuple[list[str], str, list[int], list[int]]:
    return row["tags"], row["metric"], row["reports"], row["ones"]
