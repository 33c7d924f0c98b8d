"""
Reports of the round under way as lines of JSON, for trying `reticent ingest`, on a plan of one mean. Every bit is 1.

    python examples/make_reports.py examples/saves.toml 1000 > reports.ndjson
"""

import secrets
import sys
import time

from reticent import Plan
from reticent.reports import Report, to_ndjson


def main(path: str, count: str) -> None:
    """Write `count` reports to standard output."""
    plan = Plan.load(path)
    number = plan.round_at(time.time())
    reports = [
        Report(plan.name, plan.version, number, secrets.token_bytes(16), b"\x80") for _ in range(int(count))
    ]
    sys.stdout.buffer.write(to_ndjson(reports))


if __name__ == "__main__":
    main(*sys.argv[1:])
