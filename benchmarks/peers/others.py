"""
The other libraries' clients, timed in their own environment; prints one JSON object. Run by `run.py`.

Each is called as its documentation shows: once per user, on the user's bucket.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
from multi_freq_ldpy.long_freq_est.dBitFlipPM import dBitFlipPM_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Client
from pure_ldp.frequency_oracles.unary_encoding import UEClient


def rate(client: Callable[[int], object], buckets: list[int], repeat: int) -> float:
    """Device-rounds a second, in the quickest of some passes; the first call compiles and is not timed."""
    client(buckets[0])
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        for bucket in buckets:
            client(bucket)
        times.append(time.perf_counter() - start)
    return len(buckets) / min(times)


def main() -> None:
    """Time each client on the same buckets."""
    count, size, width, epsilon, repeat = (int(text) for text in sys.argv[1:])
    buckets = np.random.default_rng(1).integers(0, size, count).tolist()
    unary = UEClient(float(epsilon), size, use_oue=False, index_mapper=lambda bucket: bucket)
    figures = {
        "dBitFlipPM": rate(
            lambda bucket: dBitFlipPM_Client(bucket, size, size, width, float(epsilon)), buckets, repeat
        ),
        "SUE, multi-freq-ldpy": rate(
            lambda bucket: UE_Client(bucket, size, float(epsilon), False), buckets, repeat
        ),
        "SUE, pure-ldp": rate(unary.privatise, buckets, repeat),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
