"""α-point rounding of whole values by many devices at once, cell for cell that of `Grid`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.errors import ParameterError
from reticent.mechanisms import Grid

LARGEST = 1 << 31
"""Ranges stay below this, so that a value and an offset add up within 32 bits without a sign."""


def whole_step(grid: Grid) -> int:
    """The step of an even grid of whole numbers; other grids are refused."""
    step = grid.points[1]
    even = all(point == step * cell for cell, point in enumerate(grid.points))
    if not even or not isinstance(step, int) or grid.max_value >= LARGEST:
        raise ParameterError("grid", "even steps of whole numbers below 2^31", list(map(str, grid.points)))
    return step


def whole_offsets(draws: NDArray[np.uint64], step: int) -> NDArray[np.int64]:
    """
    The paper's α in {0, …, s - 1} of each 64-bit draw: ⌊draw · s / 2⁶⁴⌋, in whole numbers throughout.

    The product has up to 95 bits and is taken in two halves of 32 bits, neither of which overflows.
    """
    size = np.uint64(step)
    low = (draws & np.uint64(0xFFFFFFFF)) * size >> np.uint64(32)
    return ((draws >> np.uint64(32)) * size + low >> np.uint64(32)).astype(np.int64)


def rounded_cells(values: NDArray[Any], draws: NDArray[np.uint64], grid: Grid) -> NDArray[np.uint8]:
    """
    The cell of each whole value for a device with each draw: `Grid.cell`, for arrays [rounds, devices].

    With L ≤ x < R neighbours, R = L + s, and both x and s whole, `Grid.cell` goes up exactly when

        draw · s ≥ (R - x) · 2⁶⁴    ⟺    ⌊draw · s / 2⁶⁴⌋ ≥ R - x    ⟺    x + α ≥ R,

    and x + α < R + s, so the cell is ⌊(x + α) / s⌋. No floating point decides anything.

    >>> grid = Grid.even(60, step=20)
    >>> rounded_cells(np.array([0, 19, 20, 60]), np.full(4, 2**63, dtype=np.uint64), grid).tolist()
    [0, 1, 1, 3]
    """
    step = whole_step(grid)
    if grid.steps > 255:
        raise ParameterError("grid", "at most 255 steps", grid.steps)
    offsets = whole_offsets(draws, step).astype(np.uint32)
    cells = np.empty(values.shape, dtype=np.uint8)
    for place, row in enumerate(np.atleast_2d(values)):
        reached = row.astype(np.uint32) + offsets
        np.atleast_2d(cells)[place] = reached >= step if grid.steps == 1 else reached // np.uint32(step)
    return cells
