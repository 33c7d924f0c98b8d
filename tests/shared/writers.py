"""Records to write to a store, and processes that write them until they are killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading

from reticent_collector.stores import RoundKey, Store

KEY = RoundKey("small", 1, 7)
"""A round of the fixture `plan` of tests/stores, which has one mean: a record is an id and a byte."""


def group(start: int, size: int, bits: bytes = b"\x80") -> bytes:
    """Records with consecutive ids."""
    return b"".join(number.to_bytes(16) + bits for number in range(start, start + size))


WRITER = """
import sys
from reticent_collector.stores import RoundKey, open_store
store, start = open_store(sys.argv[1]), int(sys.argv[2])
key = RoundKey("small", 1, 7)
for number in range(start, start + 100_000):
    ids = range(40 * number - 10, 40 * number + 40)     # ten of the group before come again
    store.append({key: b"".join((2**64 + each).to_bytes(16) + b"\\x80" for each in ids)})
    sys.stdout.write(f"{number}\\n")
    sys.stdout.flush()
"""


def killed_writers(url: str, kills: int, longest: float) -> int:
    """Kill writers, one after the other, at random moments; returns the last group whose append returned."""
    draws, start, told = random.Random(11), 1, []
    for _ in range(kills):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, url, str(start)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        lines = [writer.stdout.readline()]
        threading.Timer(draws.random() * longest, writer.kill).start()
        lines += writer.stdout.readlines()
        assert writer.wait(60) == -signal.SIGKILL
        writer.stdout.close()
        told += [int(line) for line in lines if line.endswith("\n")]
        start = told[-1] + 1
    assert told == list(range(1, told[-1] + 1))
    return told[-1]


def check_written(store: Store, last: int) -> None:
    """Every group up to the last that returned is there, perhaps the one after it, and nothing twice."""
    assert store.verify() == []
    length = store.counts(KEY)[()]["minutes"].devices
    assert 40 * last + 10 <= length <= 40 * (last + 1) + 10
    assert store.stored_reports() >= length
    assert store.seal(KEY)
    assert store.rounds()[0].reports == length
