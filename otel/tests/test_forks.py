"""Workers forked from one program share a device: each counts what it did itself, once, in one report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shared.processes import run_script

PRELUDE = """
import math, os, signal, sys, threading, time, warnings
warnings.filterwarnings("ignore", "This process", DeprecationWarning)   # forking with threads is the point
from pathlib import Path
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from reticent.device import Policy, Device
from reticent_otel import PrivateMetricExporter, forks
from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric, Plan
from reticent.testing import ManualClock, RecordingTransport

signal.alarm(50)
forks.PATIENCE = 20.0     # a busy machine is not what is tested
PLAN = Plan("app-usage", 1, 3600, 3600, tuple(
    Metric(name, OneBitMean(1, 10_000), Flip(0.2)) for name in ("requests", "work", "seconds")
))
HERE = 400_000
clock, transport = ManualClock((HERE - 1) * 3600.0), RecordingTransport()
options = {"consent": "granted", "clock": clock, "transport": transport, "policy": Policy.unlimited()}
device = Device(PLAN, Path("state"), **options)  # HERE is answered
clock.now = HERE * 3600.0 + 60

def set_up(interval=3_600_000, device=device):
    reader = PeriodicExportingMetricReader(PrivateMetricExporter(device), interval)
    return MeterProvider([reader], shutdown_on_exit=False)

def fork(work):
    child = os.fork()
    if child == 0:
        signal.alarm(40)
        try:
            work()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return child

def wait(*children):
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str], None]:
    """Runs a script in a process of its own, where it may fork."""

    def start(script: str) -> None:
        done = run_script(tmp_path, PRELUDE, script)
        # The SDK says so itself when its thread is quicker than the construction of the provider.
        early = "Cannot call collect on a MetricReader until it is registered on a MeterProvider"
        assert [line for line in done.stderr.splitlines() if line != early] == []

    return start


def test_workers_of_a_program_that_was_set_up_before_the_fork(run: Callable[[str], None]) -> None:
    """What the parent had counted and not exported is copied into each worker's SDK, and counts once."""
    script = """
    provider = set_up()
    meter = provider.get_meter("app")
    requests, seconds = meter.create_counter("requests"), meter.create_histogram("seconds")
    requests.add(1000, {"path": "/a"}); seconds.record(0.5)         # not exported when the workers begin

    def work(number):
        for _ in range(3):
            requests.add(number, {"path": "/a"}); requests.add(number, {"path": "/b"})
            seconds.record(number)
            provider.force_flush()
        requests.add(100)
        provider.shutdown()

    wait(*[fork(lambda: work(number)) for number in (1, 2, 3, 4)])
    requests.add(2000)
    provider.shutdown()
    # parent 3,000; workers 4 x 100 + 6 x (1 + 2 + 3 + 4); seconds 1/2 + 3 x 10
    assert device._recorded(HERE) == {"requests": 3460, "seconds": 30.5}, device._recorded(HERE)
    clock.now += 3600
    assert device.flush() == 1
    assert [report.round for report in transport.reports] == [HERE]
    assert device.status().notes == {}, device.status().notes
    """
    run(script)


def test_without_care_the_parents_increase_would_be_counted_by_every_worker(
    run: Callable[[str], None],
) -> None:
    """The test above can fail: an exporter that does not know of forks counts 1,000 three times."""
    script = """
    forks.Inheritance.discard = lambda inheritance: None
    provider = set_up()
    requests = provider.get_meter("app").create_counter("requests")
    requests.add(1000)
    wait(*[fork(provider.shutdown) for _ in range(2)])
    provider.shutdown()
    assert device._recorded(HERE) == {"requests": 3000}, device._recorded(HERE)
    """
    run(script)


def test_workers_that_export_by_themselves(run: Callable[[str], None]) -> None:
    """The SDK's own hook starts a thread in each worker, which exports every few milliseconds."""
    script = """
    provider = set_up(interval=5)
    requests = provider.get_meter("app").create_counter("requests")

    def work():
        for _ in range(40):
            requests.add(1)
            time.sleep(0.002)
        provider.shutdown()

    children = []
    for _ in range(3):
        requests.add(10)
        children.append(fork(work))
    wait(*children)
    provider.shutdown()
    assert device._recorded(HERE) == {"requests": 3 * 40 + 3 * 10}, device._recorded(HERE)
    """
    run(script)


def test_workers_of_workers(run: Callable[[str], None]) -> None:
    script = """
    provider = set_up()
    requests = provider.get_meter("app").create_counter("requests")
    requests.add(1)

    def outer():
        requests.add(10)
        def inner():
            requests.add(100)
            provider.shutdown()
        wait(fork(inner))
        provider.shutdown()

    wait(fork(outer))
    provider.shutdown()
    assert device._recorded(HERE) == {"requests": 111}, device._recorded(HERE)
    """
    run(script)


def test_observable_counters_go_on_from_the_fork(run: Callable[[str], None]) -> None:
    script = """
    done = 500
    provider = set_up()
    meter = provider.get_meter("app")
    meter.create_observable_counter("work", callbacks=[lambda _: [Observation(done)]])

    def work():
        global done
        done += 20
        provider.shutdown()

    wait(*[fork(work) for _ in range(2)])
    provider.shutdown()
    assert device._recorded(HERE) == {"work": 500 + 2 * 20}, device._recorded(HERE)
    """
    run(script)


def test_a_program_that_is_set_up_after_the_fork(run: Callable[[str], None]) -> None:
    """As the SDK's documentation advises: each worker has a provider, an exporter and a device of its own."""
    script = """
    def work(number):
        own = Device(PLAN, Path("state"), **options)
        provider = set_up(device=own)
        provider.get_meter("app").create_counter("requests").add(number)
        provider.shutdown()
        own.close()

    wait(*[fork(lambda: work(number)) for number in (1, 2, 3)])
    assert device._recorded(HERE) == {"requests": 6}, device._recorded(HERE)
    clock.now += 3600
    assert device.flush() == 1
    assert len(transport.bodies) == 1
    """
    run(script)


def test_a_reader_that_cannot_be_found_costs_one_export_and_counts_nothing_twice(
    run: Callable[[str], None],
) -> None:
    script = """
    class OwnReader(MetricReader):
        def __init__(self, exporter):
            super().__init__(exporter._preferred_temporality)
            self.to = exporter
        def _receive_metrics(self, metrics_data, timeout_millis=0, **_):
            self.to.export(metrics_data)
        def shutdown(self, timeout_millis=0, **_):
            self.collect()

    provider = MeterProvider([OwnReader(PrivateMetricExporter(device))], shutdown_on_exit=False)
    requests = provider.get_meter("app").create_counter("requests")
    requests.add(1000)

    def work():
        requests.add(1)
        provider.force_flush()      # holds the parent's 1,000 as well: thrown away whole
        requests.add(20)
        provider.shutdown()

    wait(fork(work))
    provider.shutdown()
    assert device._recorded(HERE) == {"requests": 1020}, device._recorded(HERE)
    """
    run(script)


def test_a_callback_that_takes_too_long_costs_one_export_and_counts_nothing_twice(
    run: Callable[[str], None],
) -> None:
    """The SDK gives up the collection that discards: the parent's increase is still there."""
    script = """
    parent, slept = os.getpid(), []
    def slow(_):
        if os.getpid() != parent and not slept:
            slept.append(True)
            time.sleep(0.3)
        return []

    forks.PATIENCE = 0.1
    provider = set_up()
    meter = provider.get_meter("app")
    requests = meter.create_counter("requests")
    for name in ("work", "seconds"):        # the SDK looks at the time before each but the first
        meter.create_observable_counter(name, callbacks=[slow])
    requests.add(1000)

    def work():
        for thread in threading.enumerate():
            if thread.name == "reticent-inheritance":
                thread.join()
        provider.force_flush()      # holds the parent's 1,000: thrown away whole
        requests.add(20)
        provider.shutdown()

    wait(fork(work))
    provider.shutdown()
    assert slept == [] and device._recorded(HERE) == {"requests": 1020}, device._recorded(HERE)
    """
    run(script)


def test_a_lock_that_was_held_at_the_fork_holds_up_neither_worker_nor_parent(
    run: Callable[[str], None],
) -> None:
    """
    A callback that waits in another thread keeps the SDK's lock across the fork: nobody in the child will
    release it. The worker begins when patience is at its end, and is not counted; the parent goes on.
    """
    script = """
    forks.PATIENCE = 0.2
    entered, go = threading.Event(), threading.Event()
    def slow(_):
        entered.set()
        go.wait(20)
        return [Observation(7)]

    provider = set_up()
    meter = provider.get_meter("app")
    requests = meter.create_counter("requests")
    meter.create_observable_counter("work", callbacks=[slow])
    collecting = threading.Thread(target=provider.force_flush)
    collecting.start()
    assert entered.wait(20)
    wait(fork(lambda: requests.add(5)))
    go.set()
    collecting.join()
    requests.add(30)
    provider.shutdown()
    assert device._recorded(HERE) == {"requests": 30, "work": 7}, device._recorded(HERE)
    """
    run(script)


def test_a_fork_waits_for_an_export_and_the_parent_goes_on(run: Callable[[str], None]) -> None:
    """An export under way belongs to the parent; a fork in the middle of it neither doubles nor blocks it."""
    script = """
    provider = set_up()
    requests = provider.get_meter("app").create_counter("requests")
    adding, go, add = threading.Event(), threading.Event(), device.add
    def slow(*arguments):
        adding.set()
        go.wait(0.2)
        add(*arguments)
    device.add = slow
    requests.add(1)
    exporting = threading.Thread(target=provider.force_flush)
    exporting.start()
    assert adding.wait(20)

    def work():
        requests.add(10)
        provider.shutdown()

    child = fork(work)
    exporting.join()
    wait(child)
    requests.add(100)
    provider.shutdown()
    assert device._recorded(HERE) == {"requests": 111}, device._recorded(HERE)
    """
    run(script)


def test_exports_come_to_rest_before_their_device(run: Callable[[str], None]) -> None:
    """An export that a fork waits for needs the device's file, which the fork must not have locked yet."""
    script = """
    forks.PATIENCE = 10.0
    providers = [set_up() for _ in range(8)]
    counters = [provider.get_meter("app").create_counter("requests") for provider in providers]
    for counter in counters:
        counter.add(100)
    add, save, adding = device.add, device.save, threading.Semaphore(0)
    def slow(*arguments):
        adding.release()
        time.sleep(0.2)
        add(*arguments)
    device.add, device.save = slow, lambda seconds=0.0: save(30.0)
    exporting = [threading.Thread(target=provider.force_flush) for provider in providers]
    for thread in exporting:
        thread.start()
    for _ in providers:
        adding.acquire()
    device.add = add

    def work():
        for counter, provider in zip(counters, providers):
            counter.add(5)
            provider.shutdown()

    wait(fork(work))
    for thread in exporting:
        thread.join()
    assert device._recorded(HERE) == {"requests": 840}, device._recorded(HERE)
    """
    run(script)


def test_exporters_of_one_provider_do_not_hold_up_a_fork(run: Callable[[str], None]) -> None:
    script = """
    other = Device(PLAN, Path("other"), **options)
    readers = [PeriodicExportingMetricReader(PrivateMetricExporter(one), 3_600_000) for one in (device, other)]
    provider = MeterProvider(readers, shutdown_on_exit=False)
    requests = provider.get_meter("app").create_counter("requests")
    requests.add(1000)

    def work():
        requests.add(5)
        provider.shutdown()

    begun = time.monotonic()
    wait(fork(work))
    assert time.monotonic() - begun < forks.PATIENCE / 2
    provider.shutdown()
    assert [one._recorded(HERE) for one in (device, other)] == [{"requests": 1005}] * 2
    """
    run(script)


def test_a_child_of_an_exporter_that_was_shut_down(run: Callable[[str], None]) -> None:
    script = """
    provider = set_up()
    requests = provider.get_meter("app").create_counter("requests")
    requests.add(4)
    provider.shutdown()
    wait(fork(lambda: requests.add(1)))
    assert device._recorded(HERE) == {"requests": 4}, device._recorded(HERE)
    """
    run(script)
