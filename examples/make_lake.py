"""
A lake to count: two rounds of plan.toml, answered by 20,000 simulated devices; the first round is sealed.

    python examples/make_lake.py lake

Each round came through two collectors, and 1,000 reports through both.
"""

import sys
from pathlib import Path

import numpy as np

from reticent import Plan
from reticent_collector.stores import Layout, RoundKey, open_store
from reticent_lab.fleet import VectorisedFleet

DEVICES, SHARED, FIRST = 20_000, 1_000, 81_651


def main(folder: str) -> None:
    """Fill the lake in `folder`."""
    plan = Plan.load(Path(__file__).with_name("plan.toml"))
    fleet, layout = VectorisedFleet(plan, DEVICES, seed=2017), Layout(plan)
    seconds = np.random.default_rng(2017).integers(0, 21_600, DEVICES)
    values = {metric.name: seconds for metric in plan.metrics}
    tags = (np.arange(DEVICES) % 4).astype(np.uint8)[:, None]  # windows, macos, linux and other in turn
    collectors = [open_store(f"lake:///{folder}") for _ in range(2)]
    for number in (FIRST, FIRST + 1):
        records = [layout.pack(report) for report in fleet.reports(number, values, tags)]
        half = DEVICES // 2
        for collector, share in zip(collectors, (records[: half + SHARED], records[half:]), strict=True):
            collector.register(plan)
            collector.append({RoundKey(plan.name, plan.version, number): b"".join(share)})
    collectors[0].seal(RoundKey(plan.name, plan.version, FIRST))
    for collector in collectors:
        collector.close()
    print(f"2 rounds of {DEVICES:,} devices are in {folder}.")


if __name__ == "__main__":
    main(sys.argv[1])
