"""The heaviest ways to pair rows with columns, for every number of pairs: the assignment problem."""

from __future__ import annotations

from collections.abc import Sequence


def best_assignments(weights: Sequence[Sequence[int]]) -> list[int]:
    """
    The largest total weight of w pairs (row, column), no row or column twice, for w = 1, 2, …, n.

    Successive shortest augmenting paths with potentials (Edmonds & Karp 1972): after w paths the matching is
    a best one of w pairs, so one run serves every w. Whole numbers, so the result is exact. O(n³).

    >>> best_assignments([[0, 3, 5], [3, 0, 2], [5, 2, 0]])
    [5, 10, 10]
    """
    matching = _Matching(weights)
    return [matching.grow() for _ in weights]


class _Matching:
    """A best matching of some number of pairs, and the potentials that prove it."""

    def __init__(self, weights: Sequence[Sequence[int]]) -> None:
        self.weights = weights
        self.top = max(max(row) for row in weights)
        self.row_of: dict[int, int] = {}
        self.free_rows = set(range(len(weights)))
        self.row_potential = [0] * len(weights)
        self.column_potential = [0] * len(weights)

    def grow(self) -> int:
        """Add one pair along a cheapest augmenting path; the new total weight."""
        distance: dict[int, int] = {}
        parent: dict[int, int] = {}
        settled: dict[int, int] = {}
        row_distance = dict.fromkeys(self.free_rows, 0)
        for row in self.free_rows:
            self._relax(row, 0, distance, parent)
        while True:
            column = min(distance, key=distance.__getitem__)
            settled[column] = reached = distance.pop(column)
            if column not in self.row_of:
                break
            row = self.row_of[column]
            row_distance[row] = reached
            self._relax(row, reached, distance, parent, settled)
        for row, length in row_distance.items():
            self.row_potential[row] += reached - length
        for each, length in settled.items():
            self.column_potential[each] -= reached - length
        self._turn(column, parent)
        return sum(self.weights[row][each] for each, row in self.row_of.items())

    def _relax(
        self,
        row: int,
        base: int,
        distance: dict[int, int],
        parent: dict[int, int],
        settled: dict[int, int] | None = None,
    ) -> None:
        """Offer every column that is not settled the way through `row`; a heavy pair is a short one."""
        start = base + self.top - self.row_potential[row]
        for column, weight in enumerate(self.weights[row]):
            if settled and column in settled:
                continue
            length = start - weight - self.column_potential[column]
            if column not in distance or length < distance[column]:
                distance[column] = length
                parent[column] = row

    def _turn(self, column: int, parent: dict[int, int]) -> None:
        """Swap pairs along the path that ends in `column`."""
        column_of = {row: each for each, row in self.row_of.items()}
        while True:
            row = parent[column]
            self.row_of[column] = row
            if row in self.free_rows:
                self.free_rows.discard(row)
                return
            column = column_of[row]
