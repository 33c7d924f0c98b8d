"""
What the device costs its host, as ratios to plain Python taken in the same run, and in microseconds.

    python benchmarks/device.py
"""

from __future__ import annotations

import hmac
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from reticent.device import Device, Policy, SecretDraws, answer
from reticent.mechanisms import Buckets, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan

METRICS = 50
ROUND = 80_000


def plan_of(metrics: int) -> Plan:
    """Four means to one histogram, as a usage plan has them."""
    mean, histogram = OneBitMean(1, 21_600), HadamardBit(1, Buckets.even(21_600, 32))
    flip = Flip("0.2")
    return Plan(
        "app-usage",
        1,
        21_600,
        21_600,
        tuple(Metric(f"metric_{n}", mean if n % 5 else histogram, flip) for n in range(metrics)),
    )


def best(work: Callable[[], object], repeat: int) -> float:
    """Microseconds of the quickest of some runs: the others were disturbed."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


def empty_loop() -> None:
    """A thousand turns of nothing."""
    for _ in range(1000):
        pass


def hash_each() -> None:
    """Three HMAC-SHA256 per metric: what alpha, memo and flip would cost that way, and nothing else."""
    for _ in range(3 * METRICS):
        hmac.digest(b"k" * 32, b"x" * 120, "sha256")


def answers() -> dict[str, float]:
    """A report of fifty metrics, without the state file."""
    plan = plan_of(METRICS)
    whole: dict[str, object] = {m.name: 37 * n % 21_600 for n, m in enumerate(plan.metrics)}
    broken: dict[str, object] = {m.name: 37 * n % 21_600 + 0.3 for n, m in enumerate(plan.metrics)}
    warm = SecretDraws(bytes(32), plan.name, 0)
    answer(warm, plan, ROUND, whole)
    return {
        "report, cold, whole values": best(
            lambda: answer(SecretDraws(bytes(32), plan.name, 0), plan, ROUND, whole), 300
        ),
        "report, warm, whole values": best(lambda: answer(warm, plan, ROUND, whole), 300),
        "report, warm, fractions": best(lambda: answer(warm, plan, ROUND, broken), 300),
    }


def device() -> dict[str, float]:
    """The same through a real device, with its file."""
    plan = plan_of(METRICS)
    now = [ROUND * 21_600 + 1.0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"

        def reopen() -> None:
            Device(plan, path, consent="granted", clock=lambda: now[0], policy=Policy.unlimited()).close()

        first = best(reopen, 1)
        again = best(reopen, 20)
        guest = Device(plan, path, consent="granted", clock=lambda: now[0], policy=Policy.unlimited())

        def durable_report() -> None:
            now[0] += 21_600
            guest.report(guest.current_round)

        durable_report()
        results = {
            "first start": first,
            "start": again,
            "add": best(lambda: guest.add("metric_1", 3), 300),
            "report, durable": best(durable_report, 30),
        }
        guest.close()
    return results


def import_time() -> float:
    """Microseconds of `from reticent import Device` in a fresh interpreter, best of seven."""
    script = (
        "import time; t = time.perf_counter(); from reticent import Device; print(time.perf_counter() - t)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603
        for _ in range(7)
    ]
    return min(float(run.stdout) for run in runs) * 1e6


def main() -> None:
    """Print the table."""
    loop, hashes = best(empty_loop, 300), best(hash_each, 300)
    print(f"{'':32}{'µs':>10}{'empty loops':>14}{'HMAC reports':>14}")
    print(f"{'1,000 empty loop turns':32}{loop:10.1f}{1:14.1f}{loop / hashes:14.2f}")
    print(f"{'150 HMAC-SHA256':32}{hashes:10.1f}{hashes / loop:14.1f}{1:14.2f}")
    for name, figure in {**answers(), **device(), "import": import_time()}.items():
        print(f"{name:32}{figure:10.1f}{figure / loop:14.1f}{figure / hashes:14.2f}")


if __name__ == "__main__":
    main()
