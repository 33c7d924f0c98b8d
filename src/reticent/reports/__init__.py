"""The wire: what is sent, how it is written as bytes, and what becomes of it."""

from reticent.reports.codec import (
    ID_BYTES,
    MAGIC,
    MAX_JSON,
    MAX_NAME,
    MAX_ROUND,
    MAX_VERSION,
    from_json,
    from_ndjson,
    from_packed,
    packed_header,
    record_width,
    to_json,
    to_ndjson,
    to_packed,
)
from reticent.reports.report import Report, Verdict, answers_asked, asked_places, pack_bits

__all__ = [
    "ID_BYTES",
    "MAGIC",
    "MAX_JSON",
    "MAX_NAME",
    "MAX_ROUND",
    "MAX_VERSION",
    "Report",
    "Verdict",
    "answers_asked",
    "asked_places",
    "from_json",
    "from_ndjson",
    "from_packed",
    "pack_bits",
    "packed_header",
    "record_width",
    "to_json",
    "to_ndjson",
    "to_packed",
]
