"""Reports as a table in the schema of a lake."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from reticent.errors import ReportError
from reticent.plan import Plan
from reticent.reports import Report, to_packed
from reticent.reports.codec import packed_header, record_width
from reticent.stores.lake import Columns
from reticent.stores.records import ROUND_BYTES


def to_arrow(reports: Iterable[Report] | bytes, plan: Plan) -> pa.Table:
    """
    Reports, or a packed batch of them, as an Arrow table: the columns of a lake, after the `round`.

    Duplicates stay; `count` takes each id once. Raises `ReportError` for what does not answer `plan`.

    >>> from reticent.mechanisms import OneBitMean
    >>> from reticent.plan import Metric
    >>> plan = Plan("demo", 1, 3600, 0, (Metric("minutes", OneBitMean(1, 60)),))
    >>> sent = Report("demo", 1, round=7, id=bytes([0] * 7 + [1] * 9), bits=b"\\x80")
    >>> to_arrow([sent], plan).to_pylist()
    [{'round': 7, 'id_high': 1, 'id_low': 72340172838076673, 'bits_0': 128}]
    """
    packed = reports if isinstance(reports, bytes) else to_packed(_answering(reports, plan), plan)
    header = packed_header(packed)
    if (header.plan, header.version, header.width) != (plan.name, plan.version, record_width(plan)):
        raise ReportError(
            "version_mismatch",
            f"batch: expected records of {plan.name} version {plan.version} ({record_width(plan)} bytes), "
            f"got {header.plan} version {header.version} ({header.width} bytes).",
        )
    rows = np.frombuffer(packed, dtype=np.uint8, offset=header.start).reshape(-1, header.width)
    rounds = np.ascontiguousarray(rows[:, :ROUND_BYTES]).view(">u8").reshape(-1).astype(np.int64)
    return Columns(plan).table(rows[:, ROUND_BYTES:]).add_column(0, "round", pa.array(rounds))


def _answering(reports: Iterable[Report], plan: Plan) -> Iterable[Report]:
    for report in reports:
        if len(report.bits) != plan.report_bytes:
            raise ReportError(
                "malformed", f"bits: expected {plan.report_bytes} bytes, got {len(report.bits)}."
            )
        if plan.uses_cohort and report.cohort is None:
            raise ReportError("malformed", "cohort: expected a whole number from 0 to 255, got None.")
        yield report
