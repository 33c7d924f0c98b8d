"""What anybody can read in a lake: which rounds there are, in which state, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reticent.errors import StoreError
from reticent.stores.lake.books import LakeBooks
from reticent.stores.lake.counting import Arrow, BadFileError, count_round
from reticent.stores.lake.files import Files
from reticent.stores.lake.layout import (
    COUNTS,
    REPORTS,
    Part,
    folder_of,
    outermost,
    plan_of,
    round_of,
    version_of,
)
from reticent.stores.lake.seals import Seals
from reticent.stores.lake.verify import problems_of
from reticent.stores.records import Count, Layout, Records, RoundKey


class LakeReader(LakeBooks):
    """The part of a lake that reads rounds from files alone; it changes nothing, nor needs the right to."""

    def __init__(self, files: Files) -> None:
        super().__init__(files)
        self.seals = Seals(files)

    def layout(self, key: RoundKey) -> Layout:
        """How the records of a round are laid out."""
        return self.columns(key).layout

    # Which rounds there are

    def round_keys(self, top: str, plan: str | None = None) -> Iterator[RoundKey]:
        """The rounds that have a folder or a file below `reports` or `counts`."""
        for plan_folder in self.files.names(top):
            name = plan_of(plan_folder)
            if name is not None and plan in (None, name):
                for version_folder in self.files.names(f"{top}/{plan_folder}"):
                    version = version_of(version_folder)
                    if version is not None:
                        for each in self.files.names(f"{top}/{plan_folder}/{version_folder}"):
                            number = round_of(each)
                            if number is not None:
                                yield RoundKey(name, version, number)

    def unsealed(self, plan: str | None = None) -> list[RoundKey]:
        """The rounds that are open or closing."""
        folders = sorted(self.round_keys(REPORTS, plan))
        sealed = set(self.round_keys(COUNTS, plan)) if folders else set()
        return [key for key in folders if key not in sealed and any(self.seals.listed(key))]

    def final(self, key: RoundKey) -> Count | None:
        """What a sealed round comes to; None when it is not sealed."""
        return self.seals.final(key, self.layout(key).plan)

    # What is in them

    def parts(self, key: RoundKey) -> list[str]:
        """
        The paths, below the lake, of the segments to count in a round that is not sealed; none when it is.

        Each id counts once over all of them, by its smallest row. A file may be gone by the time it is read,
        because a collector merged it with others: ask again then.
        """
        if self.seals.is_sealed(key):
            return []
        return [f"{folder_of(key)}/{name}" for name in self.countable(key)]

    def countable(self, key: RoundKey) -> list[str]:
        """The names of the files that count, without those that another one covers."""
        names = self.seals.kept(key)
        if names is None:
            listed, others = self.seals.listed(key)
            names = [segment.name for segment in listed] + others
        parsed = {name: Part.parse(name) for name in names}
        foreign = [name for name, segment in parsed.items() if segment is None]
        return [segment.name for segment in outermost(filter(None, parsed.values()))] + foreign

    def read(self, key: RoundKey, segment: Part) -> Records | None:
        """The records of a segment; None when it is gone, `StoreError` when it is bad."""
        data = self.files.read(f"{folder_of(key)}/{segment.name}")
        return None if data is None else self.columns(key).decode(key, data, segment.rows)

    def count(self, key: RoundKey, *, skip_bad: bool = False) -> Count:
        """
        Count a round from its segments: each id once, of different reports with one id the smallest.

        A segment that cannot be read, or is not of this round, is refused by name; `skip_bad` leaves such
        ones out, and says so in the result. A sealed round is what it was sealed as.
        """
        try:
            count, _, _ = count_round(self, key, Arrow(), skip_bad=skip_bad)
            return count
        except BadFileError as error:
            self.refuse(key, error.names)
            raise

    def refuse(self, key: RoundKey, bad: Mapping[str, str]) -> None:
        """Raise `StoreError` about the first bad segment, if there is one."""
        for name, reason in bad.items():
            raise StoreError(
                f"{self.url}: {folder_of(key)}/{name}: {reason}\n"
                "  Hint: reticent store check lists all such files; count and seal leave them out with skip_bad"
            )

    def verify(self) -> list[str]:
        """What is wrong with the lake, a sentence each; empty when all is well. Changes nothing."""
        return problems_of(self)
