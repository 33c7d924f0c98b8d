"""
What a relay takes, with its collector and the load beside it on one machine.

    python -m benchmarks relay

Single reports to the collector alone, and through a relay to the same collector, turn by turn. Both figures are of
reports that the collector has acknowledged as durable.
"""

from __future__ import annotations

import tempfile

from benchmarks.collector import Table
from benchmarks.load import collector, relay, singles

RUNS, SECONDS = 3, 4.0


def main() -> None:
    """Measure both at 256 and 1,024 connections, and print the ratio."""
    table = Table()
    with (
        tempfile.TemporaryDirectory(prefix="reticent-bench-") as folder,
        collector(f"sqlite:///{folder}/relay.db") as alone,
        relay(alone.url) as through,
    ):
        for connections in (256, 1024):
            direct, relayed = [], []
            of_relay, of_collector = [], []  # microseconds of a core for each report that goes through both
            for _ in range(RUNS):
                direct.append(singles([alone.port], connections, SECONDS))
                before = through.cpu_seconds, alone.cpu_seconds
                relayed.append(singles([through.port], connections, SECONDS))
                reports = relayed[-1] * SECONDS
                of_relay.append(1e6 * (through.cpu_seconds - before[0]) / reports)
                of_collector.append(1e6 * (alone.cpu_seconds - before[1]) / reports)
            measure = table.add(f"the collector alone, {connections} connections", "reports/s", direct)
            table.add(f"through a relay, {connections} connections", "reports/s", relayed, measure)
            table.add("  time of a core per report, relay", "us", of_relay, least=True)
            table.add("  time of a core per report, collector behind it", "us", of_collector, least=True)


if __name__ == "__main__":
    main()
