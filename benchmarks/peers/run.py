"""
reticent beside two libraries of the field, on the nearest task each has, in one run.

    python benchmarks/peers/run.py
    python benchmarks/peers/run.py --save       # what it prints also goes to docs/measured/peers.txt

The others are installed into an environment of their own (build/peers), never into reticent's.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
import venv
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np

from reticent.mechanisms import Buckets, DBitFlip
from reticent.plan import Metric, Plan
from reticent_lab.fleet import VectorisedFleet

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build" / "peers"
PINNED = [
    "multi-freq-ldpy==0.2.5",
    "pure-ldp==1.2.0",
    "numpy>=2,<3",
    "numba",
    "bitstring",
    "scikit-learn",  # pure-ldp imports these two and does not ask for them
    "statsmodels",
]
DEVICES, SIZE, WIDTH, EPSILON, REPEAT = 20_000, 32, 4, 1, 3
LARGE = 1_000_000


def environment() -> Path:
    """The Python of the others' environment, made on the first run."""
    python = HOME / "bin" / "python"
    if not (HOME / ".ready").exists():
        print(f"Setting up {HOME.relative_to(ROOT)} (once) ...", file=sys.stderr)
        venv.create(HOME, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PINNED], check=True)  # noqa: S603
        (HOME / ".ready").touch()
    return python


def versions(python: Path) -> dict[str, str]:
    """What is installed there."""
    listed = subprocess.run(  # noqa: S603
        [str(python), "-m", "pip", "--disable-pip-version-check", "list", "--format", "json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    wanted = {"multi-freq-ldpy", "pure-ldp", "numpy", "numba"}
    return {each["name"]: each["version"] for each in json.loads(listed.stdout) if each["name"] in wanted}


def others(python: Path) -> dict[str, float]:
    """Device-rounds a second of each."""
    numbers = [str(number) for number in (DEVICES, SIZE, WIDTH, EPSILON, REPEAT)]
    script = str(Path(__file__).with_name("others.py"))
    done = subprocess.run(  # noqa: S603
        [str(python), script, *numbers], check=True, capture_output=True, text=True
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def ours(width: int, devices: int) -> float:
    """Device-rounds a second of reticent: the same buckets, remembered answers and counts included."""
    mechanism = DBitFlip(EPSILON, Buckets.even(SIZE, SIZE), width, "paper")
    plan = Plan("peers", 1, 60, 0, (Metric("bucket", mechanism),))
    values = np.random.default_rng(1).integers(0, SIZE, devices)
    fleet = VectorisedFleet(plan, devices, seed=1)
    times = []
    for number in range(20):
        start = time.perf_counter()
        fleet.counts(number, {"bucket": values})
        times.append(time.perf_counter() - start)
    return devices / min(times)


def main() -> None:
    """Print the table."""
    python = environment()
    print(", ".join(f"{name} {version}" for name, version in sorted(versions(python).items())))
    figures = others(python)
    narrow, wide = ours(WIDTH, DEVICES), ours(SIZE, DEVICES)
    rows = [
        (f"dBitFlipPM d = {WIDTH}", "multi-freq-ldpy", figures["dBitFlipPM"], narrow),
        ("SUE", "multi-freq-ldpy", figures["SUE, multi-freq-ldpy"], wide),
        ("SUE", "pure-ldp", figures["SUE, pure-ldp"], wide),
    ]
    print(f"k = {SIZE}, epsilon = {EPSILON}, {DEVICES:,} devices; thousand device-rounds a second\n")
    print(f"{'':20}{'':20}{'theirs':>10}{'reticent':>10}{'ratio':>8}")
    for task, name, theirs, reticent in rows:
        print(f"{task:20}{name:20}{theirs / 1e3:10.1f}{reticent / 1e3:10.0f}{reticent / theirs:8.0f}")
    print(
        f"\nreticent with {LARGE:,} devices: dBitFlip d = {WIDTH} {ours(WIDTH, LARGE) / 1e3:,.0f}, "
        f"d = {SIZE} {ours(SIZE, LARGE) / 1e3:,.0f}"
    )
    print(
        "Theirs draw new noise at each call, also where the name has memo; reticent's answers are remembered."
    )


if __name__ == "__main__":
    kept = StringIO()
    with redirect_stdout(kept):
        main()
    print(kept.getvalue(), end="")
    if "--save" in sys.argv:
        head = (
            f"$ make bench-peers ARGS=--save\n{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}"
        )
        head += f", {os.cpu_count()} cores\n\n"
        (ROOT / "docs" / "measured" / "peers.txt").write_text(head + kept.getvalue())
