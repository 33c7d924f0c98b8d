"""An attack that learns its event: which answers of the whole report differ most between two histories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reticent.lab.audit.attacks import Attacked
from reticent.lab.audit.bounds import expected_lower, ratio_bound
from reticent.lab.audit.figures import Enumerated
from reticent.lab.audit.worlds import Sample
from reticent.plan import Plan

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
    loss = next(each for each in exact if (each.subject, each.what) == ("whole plan", "constant, all rounds"))
    best: Attacked | None = None
    for first, second in [*pairs, *((b, a) for a, b in pairs)]:
        outcomes = [_outcomes(plan, samples[place]) for place in (first, second)]
        (learn, judge), (other_learn, other_judge) = ([x[: len(x) // 2], x[len(x) // 2 :]] for x in outcomes)
        event = _event(learn, other_learn, together)
        hits, other_hits = int(event[judge].sum()), int(event[other_judge].sum())
        bound = ratio_bound(hits, len(judge), other_hits, len(other_judge), together)
        found = Attacked(
            "whole plan", WHAT, loss.claim, loss.loss, bound.estimate, bound.lower, bound.upper,
            min(len(judge), len(other_judge)), bound.lower > loss.claim,
        )  # fmt: skip
        if best is None or (found.lower, found.estimate) > (best.lower, best.estimate):
            best = found
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
