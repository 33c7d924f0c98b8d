"""Attacks that do not know what to look for: learned events, and what must not depend on values at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.lab.audit.attacks import Attacked, expected_lower, ratio_bound
from reticent.lab.audit.exact import Enumerated
from reticent.lab.audit.scenarios import Sample
from reticent.plan import Plan

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
    results = []
    for what, look in LOOKS.items():
        tried = []
        for first, second in pairwise(samples):
            for here, there in ((first, second), (second, first)):
                shown, other = look(here, there)
                bound = ratio_bound(int(shown.sum()), len(shown), int(other.sum()), len(other), together)
                tried.append((bound.lower, bound, min(len(shown), len(other))))
        _, bound, devices = max(tried, key=lambda attempt: attempt[0])
        results.append(
            Attacked(
                "report", what, 0.0, None, bound.estimate, bound.lower, bound.upper, devices, bound.lower > 0
            )
        )
    return results


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


MOST_BITS = 12
"""How many answer bits of a report are looked at together; each doubles the outcomes to learn about."""

WHAT = "constant, learned event"


def carry_out_learned(
    plan: Plan,
    samples: Sequence[Sample],
    pairs: Sequence[tuple[int, int]],
    exact: Sequence[Enumerated],
    together: int,
) -> list[Attacked]:
    """
    All bits of a device together, each by what most of its rounds say.

    The other attacks know what to look for; this one finds out, so it also sees answers that hang together
    and should not. The outcomes to look for are chosen on the first half of the devices, and counted on
    the second. Claim: that of the whole plan for a device that never changes.
    """
    loss = next(
        claim for claim in exact if (claim.subject, claim.what) == ("whole plan", "constant, all rounds")
    )
    best: Attacked | None = None
    for first, second in [*pairs, *((b, a) for a, b in pairs)]:
        outcomes = [_outcomes(plan, samples[place]) for place in (first, second)]
        (learn, judge), (other_learn, other_judge) = ([x[: len(x) // 2], x[len(x) // 2 :]] for x in outcomes)
        event = _event(learn, other_learn, together)
        hits, other_hits = int(event[judge].sum()), int(event[other_judge].sum())
        bound = ratio_bound(hits, len(judge), other_hits, len(other_judge), together)
        result = Attacked(
            "whole plan", WHAT, loss.claim, loss.loss, bound.estimate, bound.lower, bound.upper,
            min(len(judge), len(other_judge)), bound.lower > loss.claim,
        )  # fmt: skip
        if best is None or (result.lower, result.estimate) > (best.lower, best.estimate):
            best = result
    return [best] if best else []


def _outcomes(plan: Plan, sample: Sample) -> NDArray[np.int64]:
    """One number per device: its first bits, each as most rounds have it."""
    code = np.zeros(sample.devices, dtype=np.int64)
    for place in range(min(plan.bits, MOST_BITS)):
        ones = sample.answered(place, 1).sum(axis=1)
        code = code * 2 + (2 * ones > sample.silent.shape[1])
    return code


def _event(here: NDArray[np.int64], there: NDArray[np.int64], together: int) -> NDArray[np.bool_]:
    """The outcomes, by falling ratio, that promise the largest bound."""
    counts = [np.bincount(codes, minlength=1 << MOST_BITS) for codes in (here, there)]
    order = np.argsort(-(counts[0] + 0.5) / (counts[1] + 0.5), kind="stable")
    sums = [
        np.cumsum(count[order]) / max(len(codes), 1)
        for count, codes in zip(counts, (here, there), strict=True)
    ]
    promised = expected_lower(sums[0], max(len(here), 1), sums[1], max(len(there), 1), together)
    event = np.zeros(1 << MOST_BITS, dtype=np.bool_)
    event[order[: int(np.argmax(promised)) + 1]] = True
    return event
