"""
What the device costs its host, as ratios to plain Python taken in the same run, and in microseconds.

    python -m benchmarks device
"""

from __future__ import annotations

import hmac
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from threading import Thread

from benchmarks import load
from reticent.device import Device, Policy, SecretDraws, answer
from reticent.mechanisms import Buckets, Flip, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan

METRICS = 50
ROUND = 80_000


def plan_of(metrics: int) -> Plan:
    """Four means to one histogram, as a usage plan has them."""
    mean, histogram = OneBitMean(1, 21_600), HadamardBit(1, Buckets.even(21_600, 32))
    flip = Flip("0.2")
    asked = tuple(Metric(f"metric_{n}", mean if n % 5 else histogram, flip) for n in range(metrics))
    return Plan("app-usage", 1, 21_600, 21_600, asked)


def best(work: Callable[[], object], repeat: int) -> float:
    """Microseconds of the quickest of some runs."""
    return load.best(lambda _: work(), repeat) * 1e6


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

        def opened() -> Device:
            return Device(plan, path, consent="granted", clock=lambda: now[0], policy=Policy.unlimited())

        first = best(lambda: opened().close(), 1)
        again = best(lambda: opened().close(), 20)
        guest = opened()

        def durable_report() -> None:
            now[0] += 21_600
            guest.report(guest.current_round)

        def written() -> None:
            guest.add("metric_1", 3)
            guest.save()

        durable_report()
        results = {
            "first start": first,
            "start": again,
            "add": thousand(lambda: guest.add("metric_1")),
            "add, from 8 threads": eight_threads(guest),
            "add and write, as before": best(written, 300),
            "report, durable": best(durable_report, 30),
        }
        guest.close()
    return results


def thousand(work: Callable[[], object]) -> float:
    """Microseconds of one call, of a thousand in a row."""

    def calls() -> None:
        for _ in range(1000):
            work()

    return best(calls, 30) / 1000


def eight_threads(guest: Device) -> float:
    """Microseconds of wall-clock time for one `add`, when eight threads do nothing else."""

    def calls() -> None:
        for _ in range(20_000):
            guest.add("metric_2")

    def all_of_them() -> None:
        threads = [Thread(target=calls) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return best(all_of_them, 3) / 160_000


BASELINE = "import sqlite3, json, tomllib, dataclasses"
SILENT = """
from reticent import Device
Device({plan!r}, {state!r}).add("editor_seconds")
"""
COLD = """
from reticent import Device, Policy
lifted = Policy(do_not_track=False, silent_in_ci=False, silent_in_containers=False)
Device({plan!r}, {state!r}, consent="granted", policy=lifted).add("editor_seconds")
"""
RUNS = 15


def environment_in(folder: str) -> dict[str, str]:
    """Where modules are compiled once, as they are where they are installed."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def starts() -> dict[str, float]:
    """
    CPU time, in microseconds, of fresh interpreters with compiled modules: the best of fifteen, by turns.

    The first start makes the state file; a later one finds it, and what the plan costs in it.
    """
    plan = str(Path(__file__).parent.parent / "examples/plan.toml")
    with tempfile.TemporaryDirectory() as folder:
        names = {"plan": plan, "state": f"{folder}/state"}
        cold, silent, environment = COLD.format(**names), SILENT.format(**names), environment_in(folder)

        def seconds(script: str, *, fresh: bool) -> float:
            for file in Path(folder).glob("state*") if fresh else ():
                file.unlink()
            timed = f"import time; t = time.process_time()\n{script}\nprint(time.process_time() - t)"
            done = subprocess.run(  # noqa: S603
                [sys.executable, "-c", timed], capture_output=True, text=True, check=True, env=environment
            )
            return float(done.stdout)

        scripts = {
            BASELINE: (BASELINE, False),
            "import, silent start, add": (silent, True),
            "import, first start, add": (cold, True),
            "import, start, add": (cold, False),
        }
        for script, fresh in scripts.values():  # compiles
            seconds(script, fresh=fresh)
        times: dict[str, list[float]] = {name: [] for name in scripts}
        for _ in range(RUNS):
            for name, (script, fresh) in scripts.items():
                times[name].append(seconds(script, fresh=fresh))
        return {name: min(each) * 1e6 for name, each in times.items()}


COMMAND_PLAN = """
[plan]
name = "sqlite-utils"
version = 1
round = "1d"

[metrics.command]
kind = "choice"
labels = ["query", "insert", "tables", "schema"]
epsilon = 0.5
flip = 0.2

[metrics.duration]
kind = "mean"
unit = "ms"
max_value = 10000
epsilon = 0.5
flip = 0.2

[metrics.failed]
kind = "flag"
epsilon = 0.5
flip = 0.2
"""
COMMAND = """
import sys
sys.modules["pandas"] = sys.modules["numpy"] = None  # as where sqlite-utils is installed alone
import sqlite_utils.cli
{telemetry}
sqlite_utils.cli.cli(["tables", {database!r}])
"""
TELEMETRY = """
from reticent import Policy
from reticent.programs import CommandLine
lifted = Policy(do_not_track=False, silent_in_ci=False, silent_in_containers=False)
CommandLine({plan!r}, {state!r}, endpoint="http://127.0.0.1:9", policy=lifted).add_to(sqlite_utils.cli.cli)
"""
TURNS = 60


def commands() -> dict[str, list[float]]:
    """
    Milliseconds of a real command, `sqlite-utils tables`, by turns: alone, and with telemetry by what was chosen.

    With a choice the first run, which makes the file and starts a process that sends, is not counted; a command
    starts such a process once an hour.
    """
    from contextlib import closing

    from reticent import Device

    lifted = Policy(do_not_track=False, silent_in_ci=False, silent_in_containers=False)
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder, "plan.toml")
        plan.write_text(COMMAND_PLAN)
        database = f"{folder}/dogs.db"
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE dogs (name TEXT)")
        environment = environment_in(folder)
        scripts = {"alone": COMMAND.format(telemetry="", database=database)}
        for choice in ("unset", "denied", "granted"):
            state = f"{folder}/{choice}.db"
            if choice != "unset":
                with closing(Device(plan, state, policy=lifted)) as device:
                    device.set_consent(choice)  # type: ignore[arg-type]
            telemetry = TELEMETRY.format(plan=str(plan), state=state)
            scripts[choice] = COMMAND.format(telemetry=telemetry, database=database)

        def milliseconds(script: str) -> float:
            start = time.perf_counter()
            subprocess.run(  # noqa: S603
                [sys.executable, "-c", script],
                stdin=subprocess.DEVNULL, capture_output=True, check=True, env=environment,
            )  # fmt: skip
            return (time.perf_counter() - start) * 1e3

        for script in scripts.values():
            milliseconds(script)
        time.sleep(3)  # until the process that sends is through
        times: dict[str, list[float]] = {name: [] for name in scripts}
        for _ in range(TURNS):
            for name, script in scripts.items():
                times[name].append(milliseconds(script))
        return times


def main() -> None:
    """Print the tables."""
    loop, hashes = best(empty_loop, 300), best(hash_each, 300)
    print(f"{'':32}{'µs':>10}{'empty loops':>14}{'HMAC reports':>14}")
    print(f"{'1,000 empty loop turns':32}{loop:10.1f}{1:14.1f}{loop / hashes:14.2f}")
    print(f"{'150 HMAC-SHA256':32}{hashes:10.1f}{hashes / loop:14.1f}{1:14.2f}")
    figures = {**answers(), **device()}
    for name, figure in figures.items():
        print(f"{name:32}{figure:10.1f}{figure / loop:14.1f}{figure / hashes:14.2f}")
    print(
        f"\nadd: {figures['add and write, as before'] / figures['add']:.0f} times as fast as with a write each,"
    )
    print(f"{1e6 / figures['add, from 8 threads']:,.0f} a second from 8 threads")
    figures = starts()
    print(f"\n{'a fresh interpreter':46}{'ms of CPU':>10}{'ratio':>8}")
    for name, figure in figures.items():
        print(f"{name:46}{figure / 1000:10.1f}{figure / figures[BASELINE]:8.2f}")
    times = commands()
    print(f"\n{'sqlite-utils tables, median of ' + str(TURNS):46}{'ms':>10}{'more':>8}")
    for name, each in times.items():
        more = median(one - alone for one, alone in zip(each, times["alone"], strict=True))
        print(f"{name:46}{median(each):10.1f}{more:8.1f}")


if __name__ == "__main__":
    main()
