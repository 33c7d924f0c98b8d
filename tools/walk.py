"""
Count the modules whose functions run from `add` in a program to a page of the dashboard.

    .venv/bin/python tools/walk.py

One device with one mean reports one round, with remembered answers, to a collector on SQLite in the same process; the
round is sealed and its page is read. Clocks are moved by hand. What runs while the device is opened and the collector
is started does not count, nor does what is only imported.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
CLOCK = "reticent/testing.py"  # of this walk
PLAN = """
min_reports = 1
[plan]
name = "walk"
version = 1
round = "6h"
grace = "6h"
[metrics.minutes]
kind = "mean"
unit = "minute"
max_value = 100
epsilon = 1.0
flip = 0.2
"""


class Walk:
    """The modules of this repository in which functions were called, by the name of the thread."""

    def __init__(self) -> None:
        self.counting = False
        self.counting_here = False  # in the main thread, which also waits and looks
        self.found: dict[str, set[str]] = {}

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        """What a profiler is called with."""
        if not self.counting or event != "call" or frame.f_code.co_name == "<module>":
            return
        thread = threading.current_thread()
        module = module_of(frame.f_code.co_filename)
        if module and module != CLOCK and (self.counting_here or thread is not threading.main_thread()):
            self.found.setdefault(thread.name, set()).add(module)

    def of(self, act: Callable[[], object]) -> bool:
        """Do something in the main thread that counts; whether it did something."""
        self.counting_here = True
        done = act()
        self.counting_here = False
        return bool(done)

    @property
    def modules(self) -> set[str]:
        """Those of all threads."""
        return set().union(*self.found.values())


def module_of(file: str) -> str:
    """
    The path of a module below the sources of its house, or nothing.

    >>> module_of(str(ROOT / "device/src/reticent/device/prf.py")), module_of("/usr/lib/python3/json/decoder.py")
    ('reticent/device/prf.py', '')
    """
    found = re.fullmatch(rf"{re.escape(str(ROOT))}/[\w-]+/src/(.*)", file)
    return found[1] if found else ""


def walk(folder: Path) -> Walk:
    """Let a value go from a program to a page."""
    from reticent import Device, Policy
    from reticent.plan import Plan
    from reticent.testing import ManualClock
    from reticent_collector import dashboard
    from reticent_collector.http import Collector, Limits, make_server
    from reticent_collector.stores import open_store

    seen = Walk()
    threading.setprofile(seen.note)
    sys.setprofile(seen.note)
    clock = ManualClock(20_000.0 * 86_400)
    plan = Plan.from_toml(PLAN)
    app = Collector(
        [plan], open_store(f"sqlite:///{folder / 'store.db'}"), clock=clock, seal_every=0.2, pages=dashboard
    )
    ports = Queue[int]()
    server = make_server(app, "127.0.0.1", 0, Limits(), None, started=lambda _, port: ports.put(port))
    thread = threading.Thread(target=server.run, name="loop")
    thread.start()
    address = f"http://127.0.0.1:{ports.get(timeout=20)}"
    aloud = Policy(silent_in_ci=False, silent_in_containers=False, do_not_track=False)
    device = Device(
        plan, folder / "device.db", consent="granted", endpoint=address, policy=aloud, clock=clock
    )
    clock.advance(plan.round_seconds)  # the round in which a device is enrolled is not answered
    device.start()
    seen.counting = True
    seen.of(lambda: device.add("minutes", 12))
    time.sleep(1.5)  # the writer
    clock.advance(plan.round_seconds)
    wait_for(
        lambda: app.store.rounds() or seen.of(device.flush)
    )  # now, not at the moment that the secret picks
    clock.advance(plan.round_seconds * 3)
    wait_for(lambda: [info.state for info in app.store.rounds()] == ["sealed"])
    time.sleep(1.0)  # the table of results
    urlopen(f"{address}/plans/walk/metrics/minutes").read()  # noqa: S310 (loopback)
    seen.counting = False
    device.close()
    server.stop()
    thread.join()
    return seen


def wait_for(done: Any) -> None:
    """Ask until it is so."""
    deadline = time.monotonic() + 30
    while not done():
        if time.monotonic() > deadline:
            raise SystemExit("walk: the value did not arrive")
        time.sleep(0.1)


def main() -> None:
    """Print the count, and the modules by house."""
    with TemporaryDirectory() as folder:
        modules = walk(Path(folder)).modules
    templates = {module for module in modules if not module.endswith(".py")}
    modules -= templates
    device = sum(module.startswith("reticent/") for module in modules)
    print(
        f"{len(modules)} modules, {device} of the device and {len(modules) - device} of the collector;"
        f" {len(templates)} templates"
    )
    print(*sorted(modules), sep="\n")


if __name__ == "__main__":
    main()
