"""The wire: what is sent, how it is written as bytes, and which reports answer a question that was asked."""

from reticent.reports.codec import (
    from_json,
    from_ndjson,
    from_packed,
    packed_header,
    to_json,
    to_ndjson,
    to_packed,
)
from reticent.reports.intake import Intake, Verdict, fits
from reticent.reports.report import Report, pack_bits

__all__ = [
    "Intake",
    "Report",
    "Verdict",
    "fits",
    "from_json",
    "from_ndjson",
    "from_packed",
    "pack_bits",
    "packed_header",
    "to_json",
    "to_ndjson",
    "to_packed",
]
