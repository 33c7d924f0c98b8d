"""
A store in dictionaries, the smallest that keeps the laws of `reticent.stores.Store` (all but durability).

    python examples/store/dict_store.py

books.py has its plans and keys, rounds.py what happens to reports, this file the upkeep.
"""

from rounds import DictRounds

from reticent.stores import RoundKey
from reticent.testing import check_store


class DictStore(DictRounds):
    """All of a store: what a collector asks for when it starts, looks after itself, and ends."""

    url = "dict:"

    def load_open_rounds(self) -> int:
        """They are in memory already."""
        return self.open_reports

    def unsealed(self) -> list[RoundKey]:
        """Rounds that wait to be sealed."""
        with self.lock:
            return list(self._open)

    @property
    def open_reports(self) -> int:
        """Reports of open rounds."""
        with self.lock:
            return sum(map(len, self._open.values()))

    @property
    def nbytes(self) -> int:
        """Memory that open rounds hold."""
        with self.lock:
            return sum(found.nbytes for found in self._open.values())

    def verify(self) -> list[str]:
        """Nothing is ever wrong with dictionaries."""
        return []

    def ping(self) -> None:
        """They can always be written."""

    def close(self) -> None:
        """Nothing is open."""


if __name__ == "__main__":
    check_store(DictStore, durable=False)
    print("DictStore keeps the laws of a store.")
