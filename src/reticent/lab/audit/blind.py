"""Attacks that do not know what to look for: learned events, and what must not depend on values at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reticent.lab.audit.bounds import Comparison, expected_lower
from reticent.lab.audit.enumeration import ALL_ROUNDS, MOST_COUNTERS
from reticent.lab.audit.exact import Enumerated
from reticent.lab.audit.scenarios import Histories, Sample, informative
from reticent.plan import Plan

Shown = NDArray[np.bool_]
Look = Callable[[Sample, Sample], tuple[Shown, Shown]]
"""Whether each device of two histories shows an event; what was used to choose the event is left out."""


def compare_envelopes(samples: Sequence[Sample]) -> Iterator[Comparison]:
    """
    Claim: none. Each history against the next one, in both directions.

    A loss above 0, at the audit's confidence, means that something other than the answer bits speaks of
    values. Silence in any of the rounds that both have is an event fixed beforehand. For sizes and ids the
    event is chosen on the first half of the devices and counted on the second.
    """
    for what, look in LOOKS.items():
        for first, second in pairwise(samples):
            for here, there in ((first, second), (second, first)):
                shown, other = look(here, there)
                yield Comparison(
                    "report", what, 0.0, None, int(shown.sum()), len(shown), int(other.sum()), len(other)
                )


def _silent(here: Sample, there: Sample) -> tuple[Shown, Shown]:
    rounds = min(here.silent.shape[1], there.silent.shape[1])
    here_silent, there_silent = (np.any(sample.silent[:, :rounds], axis=1) for sample in (here, there))
    return np.asarray(here_silent), np.asarray(there_silent)


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


LOOKS: dict[str, Look] = {"silence": _silent, "size of a report": _size, "bits of the id": _id}


def compare_pairs(plan: Plan, told: Histories, samples: Sequence[Sample]) -> Iterator[Comparison]:
    """
    Claim: none. Given the values, what one bit of a report says must not depend on what another says.

    Every claim about several metrics rests on it: a draw, an alpha or a flip that two metrics share shows
    here. Bits are compared in one round of a steady world, and by what most rounds say in the middle world,
    where devices differ in how they round. In plans with many metrics only neighbours are compared.
    """
    pairs = combinations if len(plan.metrics) <= MOST_COUNTERS else lambda metrics, _: pairwise(metrics)
    joined = [(metric, metric) for metric in plan.metrics if metric.bits > 1]
    for a, b in [*joined, *pairs(plan.metrics, 2)]:
        subject = a.name if a is b else f"{a.name} and {b.name}"
        place, other_place = plan.offset(a.name), plan.offset(b.name) + (a is b)
        usable = informative(a.mechanism) & informative(b.mechanism)
        for world, rounds in ((0, 1), (told.middle, 0)):
            if world is None:
                continue
            sample = samples[world]
            length = rounds or sample.silent.shape[1]
            known = usable[sample.cohorts]
            one, other = (
                2 * sample.answered(bit, 1)[known, :length].sum(axis=1) > length
                for bit in (place, other_place)
            )
            for here in (one, ~one):
                yield Comparison(
                    subject, "answers that hang together", 0.0, None,
                    int((here & other).sum()), int(here.sum()), int((~here & other).sum()), int((~here).sum()),
                )  # fmt: skip


MOST_BITS = 12
"""How many answer bits of a report are looked at together; each doubles the outcomes to learn about."""


def compare_learned(
    plan: Plan, told: Histories, samples: Sequence[Sample], exact: Sequence[Enumerated]
) -> Iterator[Comparison]:
    """
    All bits of a device together, each by what most of its rounds say.

    The other attacks know what to look for; this one finds out, so it also sees answers that hang together
    and should not. The outcomes to look for are chosen on the first half of the devices, and counted on
    the second. Claim: that of the whole plan for a device that never changes.
    """
    loss = next(claim for claim in exact if (claim.subject, claim.what) == ("whole plan", ALL_ROUNDS))
    pairs = list(dict.fromkeys([*pairwise(range(told.steady)), told.joint]))
    pairs += [(second, first) for first, second in pairs]
    for far in {0, told.long}:
        for first, second in pairs:
            halves = [_split(_outcomes(plan, samples[place + far])) for place in (first, second)]
            (learn, judge), (other_learn, other_judge) = halves
            event = learned_event(learn, other_learn, 1 << MOST_BITS)
            yield Comparison(
                "whole plan", "constant, learned event", loss.claim, loss.loss,
                int(event[judge].sum()), len(judge), int(event[other_judge].sum()), len(other_judge),
            )  # fmt: skip


def _outcomes(plan: Plan, sample: Sample) -> NDArray[np.int64]:
    """One number per device: its first bits, each as most rounds have it."""
    code = np.zeros(sample.devices, dtype=np.int64)
    for place in range(min(plan.bits, MOST_BITS)):
        ones = sample.answered(place, 1).sum(axis=1)
        code = code * 2 + (2 * ones > sample.silent.shape[1])
    return code


def learned_event(here: NDArray[np.int64], there: NDArray[np.int64], outcomes: int) -> Shown:
    """Of so many outcomes those, by falling ratio, that promise the largest bound: learned from two samples."""
    counts = [np.bincount(codes, minlength=outcomes) for codes in (here, there)]
    order = np.argsort(-(counts[0] + 0.5) / (counts[1] + 0.5), kind="stable")
    first, second = (np.cumsum(count[order]) / max(count.sum(), 1) for count in counts)
    promised = expected_lower(first, max(len(here), 1), second, max(len(there), 1))
    event = np.zeros(outcomes, dtype=np.bool_)
    event[order[: int(np.argmax(promised)) + 1]] = True
    return event
