"""Reports to counts, millions at a time: the same counts as `count_reports`, from arrays."""

from __future__ import annotations

from reticent.counts.counts import Counts, fold
from reticent.errors import MissingExtraError, ParameterError
from reticent.mechanisms import COHORTS
from reticent.plan import Plan

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError as missing:
    raise MissingExtraError("estimates", "numpy") from missing

_BATCH = 1 << 18
"""Reports per step: the keys of one step fit the cache."""

_BIT_OF_BYTE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int64)
"""[byte, place] -> bit, most significant first."""


def count_arrays(plan: Plan, cohorts: NDArray[np.uint8] | None, bits: NDArray[np.uint8]) -> dict[str, Counts]:
    """
    The counts of every metric over n distinct reports of one round and segment.

    `bits` is uint8[n, plan.report_bytes], the bytes as sent; `cohorts` is uint8[n], or None where the plan
    needs none. No bit is unpacked: each byte of the report is tallied with its cohort in a table of
    256 × 256, and the table, whatever n, is turned into ones per bit by one small matrix product.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> plan = Plan("demo", 1, 3600, 0, (Metric("minutes", OneBitMean(1, 60)),))
    >>> count_arrays(plan, None, np.array([[0x80], [0x00], [0x80]], dtype=np.uint8))
    {'minutes': MeanCounts(reports=3, ones=2)}
    """
    _check(plan, cohorts, bits)
    used = cohorts if plan.uses_cohort else None
    groups = COHORTS if used is not None else 1
    reports = np.zeros(groups, dtype=np.int64)
    ones = np.zeros((groups, plan.report_bytes, 8), dtype=np.int64)
    for start in range(0, len(bits), _BATCH):
        batch = slice(start, start + _BATCH)
        keys = None if used is None else used[batch].astype(np.intp) << 8
        for column in range(plan.report_bytes):
            byte = bits[batch, column]
            table = np.bincount(byte if keys is None else keys | byte, minlength=groups * 256)
            table = table.reshape(groups, 256)
            ones[:, column] += table @ _BIT_OF_BYTE
            if column == 0:
                reports += table.sum(axis=1)
    per_cohort = {cohort: int(number) for cohort, number in enumerate(reports) if number}
    places = {cohort: ones[cohort].ravel().tolist() for cohort in per_cohort}
    return {
        metric.name: fold(metric, plan.offset(metric.name), per_cohort, places) for metric in plan.metrics
    }


def _check(plan: Plan, cohorts: NDArray[np.uint8] | None, bits: NDArray[np.uint8]) -> None:
    if bits.dtype != np.uint8 or bits.ndim != 2 or bits.shape[1] != plan.report_bytes:
        raise ParameterError("bits", f"uint8[n, {plan.report_bytes}]", f"{bits.dtype}{list(bits.shape)}")
    if cohorts is None:
        if plan.uses_cohort:
            raise ParameterError("cohorts", f"uint8[{len(bits)}], since the plan has a histogram", None)
    elif cohorts.dtype != np.uint8 or cohorts.shape != (len(bits),):
        raise ParameterError("cohorts", f"uint8[{len(bits)}]", f"{cohorts.dtype}{list(cohorts.shape)}")
