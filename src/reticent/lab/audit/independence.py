"""What must not depend on values at all: whether a report comes, how long it is, and its id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.lab.audit.attacks import Attacked
from reticent.lab.audit.bounds import ratio_bound
from reticent.lab.audit.worlds import Sample

Shown = NDArray[np.bool_]
Look = Callable[[Sample, Sample], tuple[Shown, Shown]]
"""Whether each device of two histories shows an event; what was used to choose the event is left out."""

SILENCE, SIZE, ID = "silence", "size of a report", "bits of the id"


def count_events(worlds: int) -> int:
    """How many events these attacks look at."""
    return 2 * len(LOOKS) * max(worlds - 1, 0)


def carry_out_independence(samples: Sequence[Sample], together: int) -> list[Attacked]:
    """
    Claim: none. Each history against the next one, in both directions.

    A loss above 0, at the audit's confidence, means that something other than the answer bits speaks of
    values. Silence in any round is an event fixed beforehand. For sizes and ids the event is chosen on the
    first half of the devices and counted on the second.
    """
    found = []
    for what, look in LOOKS.items():
        tried = []
        for first, second in pairwise(samples):
            for here, there in ((first, second), (second, first)):
                shown, other = look(here, there)
                bound = ratio_bound(int(shown.sum()), len(shown), int(other.sum()), len(other), together)
                tried.append((bound.lower, bound, min(len(shown), len(other))))
        _, bound, devices = max(tried, key=lambda each: each[0])
        found.append(
            Attacked(
                "report", what, 0.0, None, bound.estimate, bound.lower, bound.upper, devices, bound.lower > 0
            )
        )
    return found


def _silent(here: Sample, there: Sample) -> tuple[Shown, Shown]:
    return np.asarray(here.silent.any(axis=1)), np.asarray(there.silent.any(axis=1))


def _size(here: Sample, there: Sample) -> tuple[Shown, Shown]:
    """The sizes that were commoner here in the first halves."""
    (learn, judge), (other_learn, other_judge) = _split(here.sizes[:, 0]), _split(there.sizes[:, 0])
    known = np.unique(np.concatenate([learn, other_learn]))
    typical = [
        size
        for size in known
        if np.count_nonzero(learn == size) * len(other_learn)
        > np.count_nonzero(other_learn == size) * len(learn)
    ]
    return np.isin(judge, typical), np.isin(other_judge, typical)


def _id(here: Sample, there: Sample) -> tuple[Shown, Shown]:
    """The bit of the id that differed most in the first halves."""
    bits, other_bits = np.unpackbits(here.ids, axis=1), np.unpackbits(there.ids, axis=1)
    (learn, judge), (other_learn, other_judge) = _split(bits), _split(other_bits)
    gaps = learn.mean(axis=0) - other_learn.mean(axis=0)
    place = int(np.argmax(np.abs(gaps)))
    wanted = int(gaps[place] > 0)
    return judge[:, place] == wanted, other_judge[:, place] == wanted


def _split(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    middle = len(column) // 2
    return column[:middle], column[middle:]


LOOKS: dict[str, Look] = {SILENCE: _silent, SIZE: _size, ID: _id}
