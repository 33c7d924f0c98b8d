"""The steps from an open round to a sealed one, each a file that is made once, whoever makes it."""

from __future__ import annotations

import json

from reticent.counts import Counts, counts_from_rows
from reticent.errors import ParameterError, StoreError
from reticent.plan import Plan
from reticent.stores.lake.files import Files
from reticent.stores.lake.layout import Part, closing_path, counts_path, folder_of, frozen_path, is_hidden
from reticent.stores.records import Count, CountsByTags, RoundKey


class Seals:
    """
    The files that close, freeze and seal a round, in this order, and are never changed.

    | file | made when | says |
    |---|---|---|
    | `closing.json` | somebody begins to seal | what is not in `segments.json` is late |
    | `segments.json` | by whoever first sees `closing.json` | the segments that count |
    | `round=N.json` | when they are counted | the counts, for ever |
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._final: dict[RoundKey, tuple[Plan, Count]] = {}

    # Segments

    def listed(self, key: RoundKey) -> tuple[list[Part], list[str]]:
        """The segments of a round that are there now, and the names of files that are no segments."""
        segments, others = [], []
        for name in self._files.names(folder_of(key)):
            segment = Part.parse(name)
            if segment is not None:
                segments.append(segment)
            elif not is_hidden(name):
                others.append(name)
        return segments, others

    # Closing and freezing

    def is_closing(self, key: RoundKey) -> bool:
        """Whether somebody has begun to seal a round, perhaps long ago."""
        return self._files.read(closing_path(key)) is not None

    def close(self, key: RoundKey) -> None:
        """Begin to seal: whoever appends after this asks `frozen` whether it still counted."""
        self._files.put_new(closing_path(key), b"{}")

    def frozen(self, key: RoundKey) -> list[str]:
        """
        The names of the files that count in a round that is closing.

        Whoever asks first lists the folder, after `closing.json` was made; the list that is kept first is
        the one that everybody goes by.
        """
        kept = self.kept(key)
        if kept is None:
            segments, others = self.listed(key)
            names = sorted([segment.name for segment in segments] + others)
            self._files.put_new(frozen_path(key), json.dumps({"segments": names}).encode())
            kept = self.kept(key)
        if kept is None:
            raise StoreError(f"{self._files.url}: {frozen_path(key)}: is gone")
        return kept

    def kept(self, key: RoundKey) -> list[str] | None:
        """The same, or None when nobody has asked yet; changes nothing."""
        data = self._files.read(frozen_path(key))
        try:
            return None if data is None else [str(name) for name in json.loads(data)["segments"]]
        except (ValueError, KeyError, TypeError) as error:
            reason = type(error).__name__
            raise StoreError(f"{self._files.url}: {frozen_path(key)}: is damaged: {reason}") from error

    # Counts

    def is_sealed(self, key: RoundKey) -> bool:
        """Whether the counts of a round are there."""
        return key in self._final or self._files.read(counts_path(key)) is not None

    def final(self, key: RoundKey, plan: Plan) -> Count | None:
        """What a sealed round comes to; None when it is not sealed."""
        if key not in self._final:
            data = self._files.read(counts_path(key))
            if data is None:
                return None
            try:
                self._final[key] = plan, read_counts(plan, data)
            except (ValueError, KeyError, TypeError, ParameterError) as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise StoreError(f"{self._files.url}: {counts_path(key)}: is damaged: {reason}") from error
        return self._final[key][1]

    def publish(self, key: RoundKey, count: Count) -> bool:
        """Seal: make the counts what they are for ever; False when somebody was quicker."""
        return self._files.put_new(counts_path(key), write_counts(key, count))

    def sweep(self, key: RoundKey) -> None:
        """Remove the segments of a round whose counts are there; none of them will be read again."""
        names = self._files.names(folder_of(key))
        if names:
            self._files.settle(counts_path(key).rpartition("/")[0])
            self._files.remove(f"{folder_of(key)}/{name}" for name in names if Part.parse(name))
        self._files.clear(folder_of(key))


def write_counts(key: RoundKey, count: Count) -> bytes:
    """The file of a sealed round: the same bytes, whoever writes it."""
    rows = []
    for tags, by_metric in sorted(count.counts.items()):
        for metric, counts in by_metric.items():
            _, reports, ones = zip(*counts.rows(), strict=True)
            rows.append({"tags": tags, "metric": metric, "reports": reports, "ones": ones})
    document = {
        **key._asdict(),
        "reports": count.reports,
        "left_out": dict(sorted(count.left_out.items())),
        "counts": rows,
    }
    return json.dumps(document).encode()


def read_counts(plan: Plan, data: bytes) -> Count:
    """What such a file says."""
    document = json.loads(data)
    counts: CountsByTags = {}
    for row in document["counts"]:
        if len(row["tags"]) != len(plan.segments):
            raise ParameterError("tags", f"one per segment ({len(plan.segments)})", len(row["tags"]))
        columns = enumerate(zip(row["reports"], row["ones"], strict=True))
        found: Counts = counts_from_rows(
            plan.by_name[row["metric"]], ((place, each, hits) for place, (each, hits) in columns)
        )
        counts.setdefault(tuple(row["tags"]), {})[row["metric"]] = found
    return Count(int(document["reports"]), counts, dict(document["left_out"]))
