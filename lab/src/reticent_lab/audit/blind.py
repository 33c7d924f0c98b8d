"""Attacks that do not know what to look for: learned events, and what must not depend on values at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from reticent.mechanisms import SCALE
from reticent.plan import Metric, Plan
from reticent_lab.audit.bounds import Fault, HistoryComparison, compare, expected_lower
from reticent_lab.audit.enumeration import ALL_ROUNDS, TWO_WINDOWS
from reticent_lab.audit.exact import Enumerated
from reticent_lab.audit.scenarios import Histories, Sample

Shown = NDArray[np.bool_]
NONE = 0.0, None  # The claim and the exact loss of what must not depend on values at all


def compare_envelopes(plan: Plan, samples: Sequence[Sample]) -> Iterator[HistoryComparison]:
    """
    Claim: none. Each history against the next one, in both directions.

    A loss above 0 means that something other than the answer bits depends on values. Silence is an event fixed
    beforehand; the others are chosen on the first half of the devices and counted on the second.
    """
    for first, second in pairwise(samples):
        for here, there in ((first, second), (second, first)):
            rounds = min(here.silent.shape[1], there.silent.shape[1])
            silent, other = (np.asarray(sample.silent[:, :rounds].any(axis=1)) for sample in (here, there))
            yield compare(
                "report", "silence", *NONE, silent, other, fault=Fault("is silent depending on its value")
            )
            columns: dict[str, list[NDArray[Any]]] = {
                "size of a report": [here.sizes[:, 0], there.sizes[:, 0]]
            }
            if plan.answers.sampled:
                columns["round that is answered"] = [here.picks[:, 0], there.picks[:, 0]]
            if plan.asked_bytes:
                columns["metrics that are asked"] = [here.asked[:, 0], there.asked[:, 0]]
            for what, pair in columns.items():
                fault = Fault(f"chooses the {what} depending on its value")
                yield compare("report", what, *NONE, *_learned(*_codes(pair)), fault=fault)
            (learn, judge), (other_learn, other_judge) = (
                _split(np.unpackbits(sample.ids, axis=1)) for sample in (here, there)
            )
            gaps = learn.mean(axis=0) - other_learn.mean(axis=0)
            place = int(np.argmax(np.abs(gaps)))
            wanted = gaps[place] > 0
            judged, other_judged = judge[:, place] == wanted, other_judge[:, place] == wanted
            fault = Fault("chooses a bit of the id depending on its value")
            yield compare("report", "bits of the id", *NONE, judged, other_judged, fault=fault)


def compare_links(plan: Plan, scenarios: Histories, samples: Sequence[Sample]) -> Iterator[HistoryComparison]:
    """
    Claim: none. What a device sends in a window must not depend on the window before.

    Half of the devices of a steady world are compared with themselves, the others in pairs; with fresh draws in
    each window both agree equally often.
    """
    for sample in samples[: scenarios.steady] if plan.answers.sampled else ():
        columns: list[tuple[str, NDArray[Any]]] = [
            ("bits", sample.bits),
            ("round that is answered", sample.picks),
        ]
        columns += [("cohort", sample.cohorts)] if plan.uses_cohort else []
        columns += [("metrics that are asked", sample.asked)] if plan.asked_bytes else []
        for what, column in columns:
            first, second = _codes([column[:, 0], column[:, 1]])
            (own, others), (own_next, others_next) = _split(first), _split(second)
            even = len(others) // 2 * 2
            alike = own == own_next
            alike_others = others[0:even:2] == others_next[1:even:2]
            repeats = Fault(
                f"repeats the {what} of the window before",
                1.0,
                float(alike_others.sum() / max(len(alike_others), 1)),
            )
            yield compare("two windows", f"linked by {what}", *NONE, alike, alike_others, fault=repeats)
            yield compare("two windows", f"linked by {what}", *NONE, ~alike, ~alike_others)


def _codes(columns: Sequence[NDArray[Any]]) -> list[NDArray[np.int64]]:
    """Several columns of numbers, or of rows of bytes: each as one number per device, equal where they are."""
    rows = np.concatenate(columns).reshape(sum(map(len, columns)), -1)
    codes = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return np.split(codes, np.cumsum([len(column) for column in columns])[:-1])


def _split(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    middle = len(column) // 2
    return column[:middle], column[middle:]


def compare_pairs(plan: Plan, scenarios: Histories, samples: Sequence[Sample]) -> Iterator[HistoryComparison]:
    """
    Claim: none. Given the values, what one bit of a report says must not depend on what another says.

    Every claim about several metrics rests on it: a draw, an alpha or a flip that two metrics share shows
    here. Bits are compared in one round of a steady world, and by what most rounds say in the middle world,
    where devices differ in how they round. All pairs of metrics are compared.
    """
    pairs = [(metric, metric) for metric in plan.metrics if metric.bits > 1]
    pairs += combinations(plan.metrics, 2) if plan.asked > 1 else ()
    worlds = [(samples[0], 1)]
    if scenarios.middle is not None:
        rounds = 1 if plan.answers.sampled else scenarios.worlds[scenarios.middle].rounds
        worlds.append((samples[scenarios.middle], rounds))
    for sample, length in worlds:
        mostly = {  # whether most rounds say 1, by the bit's place
            place: 2 * sample.answered(place, 1)[:, :length].sum(axis=1) > length
            for metric in plan.metrics
            for place in range(plan.offset(metric.name), plan.offset(metric.name) + min(metric.bits, 2))
        }
        informed = {metric.name: sample.informed(plan, metric.name) for metric in plan.metrics}
        for a, b in pairs:
            subject = a.name if a is b else f"{a.name} and {b.name}"
            known = informed[a.name] & informed[b.name]
            one = mostly[plan.offset(a.name)][known]
            other = mostly[plan.offset(b.name) + (a is b)][known]
            fault: Fault | None = Fault("draws two answers of a report together")
            if sample is not samples[0]:
                fault = _rounded_alike(a, b, length)
            yield compare(subject, "dependent answers", *NONE, other[one], other[~one], fault=fault)
            yield compare(subject, "dependent answers", *NONE, other[~one], other[one])


def _rounded_alike(a: Metric, b: Metric, rounds: int) -> Fault | None:
    """What most rounds would say of two means halfway between cells, if one alpha served both."""
    if not (a.mechanism.grid and b.mechanism.grid):
        return None
    up, down = [], []
    for metric in (a, b):
        kept = float(binom.cdf((rounds - 1) // 2, rounds, float(metric.flip.probability)))
        one = 1 - metric.mechanism.response.low / SCALE
        up.append(one * kept + (1 - one) * (1 - kept))
        down.append((1 - one) * kept + one * (1 - kept))
    both = up[0] * up[1] + down[0] * down[1]
    other = (1 - up[0]) * up[1] + (1 - down[0]) * down[1]
    return Fault("rounds two metrics together", both / (up[0] + down[0]), other / (2 - up[0] - down[0]))


MOST_BITS = 12
"""How many answer bits of a report are looked at together; each doubles the outcomes to learn about."""


def compare_learned(
    plan: Plan, scenarios: Histories, samples: Sequence[Sample], exact: Sequence[Enumerated]
) -> Iterator[HistoryComparison]:
    """
    All bits of a device together: each by what most of its rounds say, or by what each of two windows says.

    The outcomes to look for are learned on the first half of the devices and counted on the second. Claim: that
    of the whole plan for a device that never changes; with sampled answers, that of two windows, for any two
    histories.
    """
    sampled = plan.answers.sampled
    places = range(min(plan.bits, MOST_BITS))
    claimed = TWO_WINDOWS if sampled else ALL_ROUNDS
    loss = next(claim for claim in exact if (claim.subject, claim.what) == ("whole plan", claimed))
    pairs = list(dict.fromkeys([*pairwise(range(scenarios.steady)), scenarios.joint]))
    pairs += [(second, first) for first, second in pairs]
    if sampled:
        pairs = list(permutations(range(len(samples)), 2))
    codes = []  # one number per device, made of its first bits
    for sample in samples:
        code = np.zeros(sample.devices, dtype=np.int64)
        for place in places[: MOST_BITS // 2] if sampled else places:
            ones = sample.answered(place, 1)
            bits = ones.T if sampled else [2 * ones.sum(axis=1) > ones.shape[1]]
            for bit in bits:
                code = code * 2 + bit
        codes.append(code)
    for far in {0, scenarios.long}:
        for first, second in pairs:
            what = f"{TWO_WINDOWS if sampled else 'constant'}, learned event"
            event = _learned(codes[first + far], codes[second + far])
            yield compare("whole plan", what, loss.claim, loss.loss, *event)


def _learned(here: NDArray[np.int64], there: NDArray[np.int64]) -> tuple[Shown, Shown]:
    """Who shows an event, of the second half of the devices of two histories: it is learned from the first half."""
    (learn, judge), (other_learn, other_judge) = _split(here), _split(there)
    event = learned_event(learn, other_learn, 1 + max(here.max(initial=0), there.max(initial=0)))
    return event[judge], event[other_judge]


def learned_event(here: NDArray[np.int64], there: NDArray[np.int64], outcomes: int) -> Shown:
    """Of so many outcomes those, by falling ratio, that promise the largest bound: learned from two samples."""
    counts = [np.bincount(codes, minlength=outcomes) for codes in (here, there)]
    order = np.argsort(-(counts[0] + 0.5) / (counts[1] + 0.5), kind="stable")
    first, second = (np.cumsum(count[order]) / max(count.sum(), 1) for count in counts)
    promised = expected_lower(first, max(len(here), 1), second, max(len(there), 1))
    event = np.zeros(outcomes, dtype=np.bool_)
    event[order[: int(np.argmax(promised)) + 1]] = True
    return event
