"""Attacks that do not know what to look for: learned events, and what must not depend on values at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def compare_envelopes(samples: Sequence[Sample]) -> Iterator[Comparison]:
    """
    Claim: none. Each history against the next one, in both directions.

    A loss above 0, at the audit's confidence, means that something other than the answer bits speaks of
    values. Silence in any of the rounds that both have is an event fixed beforehand. For sizes and ids the
    event is chosen on the first half of the devices and counted on the second.
    """
    for first, second in pairwise(samples):
        for here, there in ((first, second), (second, first)):
            rounds = min(here.silent.shape[1], there.silent.shape[1])
            silent, other_silent = (
                np.asarray(sample.silent[:, :rounds].any(axis=1)) for sample in (here, there)
            )
            # The sizes that were commoner here in the first halves.
            (learn, judge), (other_learn, other_judge) = _split(here.sizes[:, 0]), _split(there.sizes[:, 0])
            sizes = [
                size
                for size in np.unique(np.concatenate([learn, other_learn]))
                if np.mean(learn == size) > np.mean(other_learn == size)
            ]
            # The bit of the id that differed most in the first halves.
            (ids, judged), (other_ids, other_judged) = (
                _split(np.unpackbits(sample.ids, axis=1)) for sample in (here, there)
            )
            gaps = ids.mean(axis=0) - other_ids.mean(axis=0)
            place = int(np.argmax(np.abs(gaps)))
            wanted = gaps[place] > 0
            for what, shown, other in (
                ("silence", silent, other_silent),
                ("size of a report", np.isin(judge, sizes), np.isin(other_judge, sizes)),
                ("bits of the id", judged[:, place] == wanted, other_judged[:, place] == wanted),
            ):
                yield Comparison(
                    "report", what, 0.0, None, int(shown.sum()), len(shown), int(other.sum()), len(other)
                )


def _split(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    middle = len(column) // 2
    return column[:middle], column[middle:]


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
                    subject, "dependent answers", 0.0, None,
                    int((here & other).sum()), int(here.sum()), int((~here & other).sum()), int((~here).sum()),
                )  # fmt: skip


MOST_BITS = 12
"""How many answer bits of a report are looked at together; each doubles the outcomes to learn about."""


def compare_learned(
    plan: Plan, told: Histories, samples: Sequence[Sample], exact: Sequence[Enumerated]
) -> Iterator[Comparison]:
    """
    All bits of a device together, each by what most of its rounds say.

    The other attacks know what to look for; this one finds out, so it also sees dependent answers
    and should not. The outcomes to look for are chosen on the first half of the devices, and counted on
    the second. Claim: that of the whole plan for a device that never changes.
    """
    loss = next(claim for claim in exact if (claim.subject, claim.what) == ("whole plan", ALL_ROUNDS))
    pairs = list(dict.fromkeys([*pairwise(range(told.steady)), told.joint]))
    pairs += [(second, first) for first, second in pairs]
    codes = []  # one number per device: its first bits, each as most rounds have it
    for sample in samples:
        code = np.zeros(sample.devices, dtype=np.int64)
        for place in range(min(plan.bits, MOST_BITS)):
            code = code * 2 + (2 * sample.answered(place, 1).sum(axis=1) > sample.silent.shape[1])
        codes.append(code)
    for far in {0, told.long}:
        for first, second in pairs:
            halves = [_split(codes[place + far]) for place in (first, second)]
            (learn, judge), (other_learn, other_judge) = halves
            event = learned_event(learn, other_learn, 1 << MOST_BITS)
            yield Comparison(
                "whole plan", "constant, learned event", loss.claim, loss.loss,
                int(event[judge].sum()), len(judge), int(event[other_judge].sum()), len(other_judge),
            )  # fmt: skip


def learned_event(here: NDArray[np.int64], there: NDArray[np.int64], outcomes: int) -> Shown:
    """Of so many outcomes those, by falling ratio, that promise the largest bound: learned from two samples."""
    counts = [np.bincount(codes, minlength=outcomes) for codes in (here, there)]
    order = np.argsort(-(counts[0] + 0.5) / (counts[1] + 0.5), kind="stable")
    first, second = (np.cumsum(count[order]) / max(count.sum(), 1) for count in counts)
    promised = expected_lower(first, max(len(here), 1), second, max(len(there), 1))
    event = np.zeros(outcomes, dtype=np.bool_)
    event[order[: int(np.argmax(promised)) + 1]] = True
    return event
