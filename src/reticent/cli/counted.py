"""A file of counts, read as if it were a store: the same questions, the same answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from reticent.stores import CountsByTags, RoundInfo, RoundKey, Store

if TYPE_CHECKING:
    from reticent.frames import CountsFile
    from reticent.plan import Plan


@dataclass(frozen=True, slots=True)
class Counted:
    """The part of a store that a reader asks for."""

    file: CountsFile

    @classmethod
    def read(cls, path: Path) -> Store:
        """The counts in a file that `reticent count` wrote."""
        from reticent.frames import read_counts

        return cast(Store, cls(read_counts(path)))

    def plans(self) -> list[Plan]:
        """The plans that the counts are counts of."""
        return sorted(self.file.plans, key=lambda plan: (plan.name, plan.version))

    def rounds(self, plan: str | None = None, last: int | None = None) -> list[RoundInfo]:
        """The rounds of a plan, latest first; at most the `last` ones of each plan."""
        keys = sorted(self.file.counts, key=lambda key: (key.plan, -key.round, -key.version))
        by_plan: dict[str, list[RoundKey]] = {}
        for key in keys:
            if plan in (None, key.plan):
                by_plan.setdefault(key.plan, []).append(key)
        return [self._info(key) for found in by_plan.values() for key in found[:last]]

    def _info(self, key: RoundKey) -> RoundInfo:
        state: Any = self.file.states.get(key, "open")
        reports = max((counts.devices for counts in self.file.totals(key).values()), default=0)
        return RoundInfo(key, state, reports)

    def counts(self, key: RoundKey) -> CountsByTags:
        """The counts of a round."""
        return self.file.counts[key]
