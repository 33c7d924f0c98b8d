"""Whether the open rounds of a store fit into the memory of this machine."""

from __future__ import annotations

from pathlib import Path

from reticent.cli.doctor.check import Area, Check

AREA = Area("store")
BYTES_PER_REPORT = 80
"""Of memory per report of an open round: 34 measured (docs/how-to/sizing.md), and again at its sealing."""


def memory(reports: int, free: int | None) -> Check:
    """
    Whether the reports of open rounds fit into memory.

    >>> [memory(reports, 2**30).state for reports in (1_000_000, 10_000_000, 20_000_000)]
    ['ok', 'note', 'problem']
    """
    if free is None:
        return AREA.note("memory", "how much is free cannot be asked for here")
    needed = reports * BYTES_PER_REPORT
    message = (
        f"{_bytes(free)} free; {reports:,} reports of open rounds take about {_bytes(needed)} in a collector"
    )
    if needed > free:
        return AREA.problem("memory", message, "seal rounds that are over, or add memory")
    if needed > free / 2:
        return AREA.note("memory", message, "a second collector on this machine would not fit")
    return AREA.ok("memory", message)


def free_memory() -> int | None:
    """Bytes that a process can have without swapping; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def _bytes(number: int) -> str:
    """
    A size for people.

    >>> _bytes(128), _bytes(3 * 2**20), _bytes(5 * 2**30 // 2)
    ('0 MiB', '3 MiB', '2.5 GiB')
    """
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"
