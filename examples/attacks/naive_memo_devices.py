"""The devices of naive_memo.py: what each of them remembers, in every bucket, under every scheme."""

import numpy as np
from gallery import DAY
from numpy.typing import NDArray

from reticent.mechanisms import Buckets, DBitFlip, HadamardBit
from reticent.plan import Metric, Plan
from reticent_lab.fleet import VectorisedFleet

BUCKETS = Buckets.even(1440, 32)  # of 45 minutes


def schemes(epsilon: float) -> dict[str, DBitFlip | HadamardBit]:
    """The paper's remember an answer per bucket (the naive memo: of 32 bits), reticent's one per class."""
    names = {32: "naive memo", 4: "4BitFlipPM", 2: "2BitFlipPM", 1: "1BitFlipPM"}
    paper = {name: DBitFlip(epsilon, BUCKETS, bits, "paper") for bits, name in names.items()}
    by_class, hadamard = DBitFlip(epsilon, BUCKETS, 4), HadamardBit(epsilon, BUCKETS)
    return {**paper, "4 bits, by class": by_class, "Hadamard bit": hadamard}


def memos(scheme: DBitFlip | HadamardBit, devices: int, seed: int) -> tuple[NDArray[np.int64], ...]:
    """What each device of a fleet answers in each bucket, and the likeliest answer: [devices, buckets]."""
    fleet = VectorisedFleet(Plan("memo", 1, DAY, DAY, (Metric("bucket", scheme),)), devices, seed)
    lows, bits = [int(low) for low in scheme.buckets.edges[:-1]], 1 << np.arange(scheme.bits)
    answers = [fleet.bits("bucket", 0, np.full(devices, low)) @ bits for low in lows]
    cohorts = [report.cohort or 0 for report in fleet.reports(0, {})]
    about = [scheme.rows_of(cohort) for cohort in cohorts]
    likely_ones = scheme.probability_of_one(np.arange(len(lows))[:, None], np.array(about)[:, None]) > 0.5
    return np.stack(answers, axis=1), likely_ones @ bits
