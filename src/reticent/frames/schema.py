"""What a frame must hold to be counted, and what is wrong with one that does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw

from reticent.frames.errors import FrameError
from reticent.frames.words import Words
from reticent.reports.codec import MAX_ROUND

IDS = ["id_high", "id_low"]
ROUND = "round"


@dataclass(frozen=True, slots=True)
class Range:
    """A column of whole numbers, and between which ends they are."""

    column: str
    lowest: int
    highest: int

    def holds(self) -> nw.Expr:
        """Whether a row is in it; what is null is not."""
        number = nw.col(self.column).cast(nw.Int64).fill_null(-1)
        return (number >= self.lowest) & (number <= self.highest)

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"{self.lowest} in every row"
        return f"whole numbers from {self.lowest} to {self.highest}"


class Shape:
    """
    What a frame of a plan's reports must look like.

    The columns are looked at before anything runs. Their values are looked at while they are counted: a row
    that is no report gets a word below 0, which is smaller than all others and so survives to the end, where
    `refuse` says what it was. A frame that is as it should be is read once.
    """

    def __init__(self, schema: nw.Schema, words: Words, round_number: int | None) -> None:
        self.plan = words.plan
        self.has_round = ROUND in schema
        self.names_plan = "plan" in schema
        self.ranges = [Range(part.column, 0, part.largest) for part in words.parts]
        if self.has_round:
            low, high = (0, MAX_ROUND - 1) if round_number is None else (round_number, round_number)
            self.ranges.append(Range(ROUND, low, high))
        if "version" in schema:
            self.ranges.append(Range("version", self.plan.version, self.plan.version))
        self._check(schema, round_number)

    def _check(self, schema: nw.Schema, round_number: int | None) -> None:
        for name in [*IDS, *(each.column for each in self.ranges)]:
            if name not in schema:
                raise FrameError(
                    name,
                    f"a column, as reports on {self.plan.name} version {self.plan.version} have it",
                    f"the columns {', '.join(schema)}",
                    "docs/reference/lake.md has the schema; reticent.frames.to_arrow makes such a table",
                )
            if not schema[name].is_integer():
                raise FrameError(name, "a column of whole numbers", schema[name])
        if not self.has_round and round_number is None:
            raise FrameError(
                ROUND,
                "a column, or the number of the one round",
                "neither",
                "count(frame, plan, round=81652)",
            )

    @property
    def group(self) -> list[str]:
        """What identifies a report: its id, and the round where there may be several."""
        return [ROUND, *IDS] if self.has_round else IDS

    def valid(self) -> nw.Expr:
        """Whether a row is a report on this plan: nothing null, all in range, of this version and round."""
        conditions = [~nw.col(name).is_null() for name in IDS] + [each.holds() for each in self.ranges]
        if self.names_plan:
            conditions.append(nw.col("plan").cast(nw.String).fill_null("") == self.plan.name)
        return nw.all_horizontal(*conditions, ignore_nulls=False)

    def looked_at(self) -> list[nw.Expr]:
        """Nulls and ends of every column, to say what is wrong."""
        plan = [nw.col("plan").cast(nw.String)] if self.names_plan else []
        nulls = [nw.col(name) for name in [*IDS, *(each.column for each in self.ranges)]] + plan
        ends = [nw.col(each.column) for each in self.ranges] + plan
        return [
            *(each.null_count().name.suffix("__nulls") for each in nulls),
            *(each.min().name.suffix("__min") for each in ends),
            *(each.max().name.suffix("__max") for each in ends),
        ]

    def refuse(self, seen: dict[str, Any]) -> FrameError:
        """What is wrong, given one row of what `looked_at` asks for."""
        for name in [*IDS, *(each.column for each in self.ranges), *(["plan"] if self.names_plan else [])]:
            if seen[f"{name}__nulls"]:
                return FrameError(name, "a value in every row", f"null in {seen[f'{name}__nulls']}")
        for each in self.ranges:
            low, high = seen[f"{each.column}__min"], seen[f"{each.column}__max"]
            if low < each.lowest or high > each.highest:
                return FrameError(each.column, str(each), _ends(low, high), _HINTS.get(each.column, ""))
        low, high = seen.get("plan__min"), seen.get("plan__max")
        return FrameError("plan", f"{self.plan.name} in every row", _ends(low, high), _HINTS["plan"])


_HINTS = {
    "plan": "filter the frame first: each plan is counted with its own metrics",
    "version": "filter the frame first: each version is counted with its own metrics",
    ROUND: "filter the frame first, or leave out round=…: then each round is counted by itself",
}


def _ends(low: object, high: object) -> str:
    return str(low) if low == high else f"{low} to {high}"
