"""
Fill a store with two days of a simulated fleet, so that there is something to look at.

    python examples/fill_store.py sqlite:///reticent.db
"""

import sys

import numpy

from reticent import Plan
from reticent.reports import packed_header
from reticent_collector.results import write_results
from reticent_collector.stores import RoundKey, open_store
from reticent_lab.fleet import VectorisedFleet

DEVICES = 100_000
FIRST = 81_648  # the round that began on 2025-11-20

plan = Plan.load("examples/plan.toml")
fleet, random = VectorisedFleet(plan, DEVICES, seed=1), numpy.random.default_rng(1)
usage = random.exponential(2000, DEVICES)
tags = numpy.resize(numpy.array([0, 1, 2], "uint8"), (DEVICES, 1))
store = open_store(sys.argv[1])
store.register(plan)
for number in range(FIRST, FIRST + 8):
    later = number >= FIRST + 4
    seconds = (usage * (1 + number % 2) * (1.3 if later else 1.0)).astype(int)
    batch = fleet.packed(number, {metric.name: seconds for metric in plan.metrics}, tags)
    head = packed_header(batch)
    records = numpy.frombuffer(batch, "uint8", offset=head.start).reshape(-1, head.width)[:, 8:].tobytes()
    key = RoundKey(plan.name, plan.version, number)
    store.append({key: records})
    store.seal(key)
write_results(store)
