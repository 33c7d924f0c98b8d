"""
The whole system as a state machine: anything may happen, in any order, and after each step the laws hold.

What can happen is listed first; the laws are in `witness.py`, and the parts in `phone.py` and `service.py`.
"""

from __future__ import annotations

import io
import tempfile
from contextlib import ExitStack, redirect_stderr
from enum import StrEnum
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.simulator.phone import Phone, watched_disks
from tests.simulator.service import Service
from tests.simulator.witness import Witness
from tests.simulator.world import HOUR, METRICS, PLANS, START, VALUES, Files, files_of, seeded_chance

from reticent.reports import from_json, to_json


class Fate(StrEnum):
    """What happens to a request on its way."""

    ARRIVES = "arrives"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"
    DOUBLED = "arrives twice"
    HELD = "held back, to arrive later or never"
    DEVICE_DIES = "the device dies while it sends"
    POWER_CUT = "the power of the device is cut while it sends"
    COLLECTOR_DIES_BEFORE = "the collector dies before the commit"
    COLLECTOR_DIES_AFTER = "the collector dies between commit and answer"
    SEALED_MEANWHILE = "its round is sealed between the check and the commit"
    COMMIT_UNCERTAIN = "the commit happens and seems to have failed"


class DeviceEvent(StrEnum):
    """What happens to a device."""

    RESTARTED = "restarted"
    KILLED = "killed"
    POWER_CUT = "power cut"
    UPGRADED = "brings the next version of the plan"
    FULL_AT_WRITE = "write"
    FULL_AT_COMMIT = "commit"
    BACKED_UP = "backed up"
    PAUSE = "pause"
    RESUME = "resume"
    FORGET = "forget"


class CollectorEvent(StrEnum):
    """What happens to the collector."""

    SEALS = "seals what is due"
    KILLED = "killed"
    KILLED_SEALING = "killed while a round is closing"
    UPGRADED = "serves the next version of the plan"
    DISK = "its disk is full, or has room again"


SHM = Path("/dev/shm")  # noqa: S108  (files in memory where there are such: syncs cost nothing there)

fates = st.lists(st.sampled_from(Fate), min_size=1, max_size=3)
phones = st.sampled_from((0, 1))
values = st.sampled_from(VALUES)


class System(RuleBasedStateMachine):
    """Two devices, a collector, and what can go wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.cleanup = ExitStack()
        self.log = self.cleanup.enter_context(redirect_stderr(io.StringIO()))
        folder = tempfile.TemporaryDirectory(prefix="reticent-", dir=SHM if SHM.is_dir() else None)
        self.folder = Path(self.cleanup.enter_context(folder))
        self.cleanup.enter_context(watched_disks())
        self.fates: list[Fate] = []
        self.dying: Files | None = None
        self.broken: BaseException | None = None
        self.held: list[bytes] = []
        self.store_full = False
        self.latest = float(START)
        self.phones: list[Phone] = []
        self.witness = Witness()

    @initialize(seed=st.integers(0, 7))
    def begin(self, seed: int) -> None:
        self.cleanup.enter_context(seeded_chance(seed))
        self.service = Service(self.folder, lambda key: self.witness.remember(self.service, key))
        self.cleanup.callback(self.service.close)
        for name in ("one", "two"):
            self.phones.append(Phone(self.folder, name, self.carry))
            self.cleanup.callback(self.phones[-1].stop)
        self.pass_time(HOUR)
        self.phones[0].back_up()
        self.witness.secrets = {phone.secret() for phone in self.phones}

    # The wire

    def carry(self, phone: Phone, request: bytes) -> bytes:
        """Take a request from a phone to the collector; a device swallows what is raised here, so keep it."""
        if self.dying is not None:
            raise ConnectionError("the dead send nothing")
        try:
            return self.carry_as_fate_has_it(phone, request)
        except OSError:
            raise
        except BaseException as error:
            self.broken = self.broken or error
            raise

    def carry_as_fate_has_it(self, phone: Phone, request: bytes) -> bytes:
        self.witness.see(phone, from_json(request.partition(b"\r\n\r\n")[2]), request)
        fate = self.fates.pop(0) if self.fates else Fate.ARRIVES
        if fate is Fate.REQUEST_LOST:
            raise TimeoutError
        if fate is Fate.HELD:
            self.held.append(request)
            raise TimeoutError
        if fate in (Fate.DEVICE_DIES, Fate.POWER_CUT):
            self.dying = phone.synced if fate is Fate.POWER_CUT else files_of(phone.path)
        if fate is Fate.DOUBLED:
            self.deliver(request)
            self.held.append(request)
        answer = self.deliver(request, fate)
        if answer is None or fate in (Fate.ANSWER_LOST, Fate.DEVICE_DIES, Fate.POWER_CUT):
            raise ConnectionResetError
        return answer

    def deliver(self, request: bytes, fate: Fate = Fate.ARRIVES) -> bytes | None:
        """Bring a request to the collector and note what it says."""
        report = from_json(request.partition(b"\r\n\r\n")[2])
        store = self.service.store
        if fate is Fate.COLLECTOR_DIES_BEFORE:
            store.before = self.service.dies
        elif fate is Fate.COLLECTOR_DIES_AFTER:
            store.after = self.service.dies
        elif fate is Fate.SEALED_MEANWHILE and not self.store_full:
            store.before = store.seal
        elif fate is Fate.COMMIT_UNCERTAIN:
            store.before = lambda _: setattr(store, "answer_lost", True)
        answer = self.service.answer(request)
        self.witness.hear(report, answer)
        if answer is None and self.store_full:
            self.service.store.backend.limit(full=True)
        return answer

    # Life on the devices

    @rule(phone=phones, metric=st.sampled_from(METRICS), value=values, replaces=st.booleans())
    def record(self, phone: int, metric: str, value: int, replaces: bool) -> None:
        device = self.phones[phone].device
        self.witness.measured.add(value)
        if device is not None:
            (device.set if replaces else device.add)(metric, value)

    @rule(phone=phones, fates=fates)
    def send(self, phone: int, fates: list[Fate]) -> None:
        self.flush(self.phones[phone], fates)

    @rule(value=values, fates=fates)
    def live_through_a_round(self, value: int, fates: list[Fate]) -> None:
        self.witness.measured.add(value)
        for phone in self.phones:
            if phone.device is not None:
                for metric in METRICS:
                    phone.device.add(metric, value)
        self.pass_time(HOUR)
        for phone in self.phones:
            self.flush(phone, list(fates))

    @rule(phone=phones, back=st.integers(0, 2))
    def report_by_hand(self, phone: int, back: int) -> None:
        """The host asks for a report, also of the round under way, and takes it somewhere itself."""
        chosen = self.phones[phone]
        if chosen.device is not None:
            report = chosen.device.report(chosen.device.current_round - back)
            if report is not None:
                self.witness.see(chosen, report, to_json(report))

    def flush(self, phone: Phone, fates: list[Fate]) -> int:
        self.fates, self.dying = fates, None
        accepted = 0 if phone.device is None else phone.device.flush(timeout=60)
        self.fates = []
        if self.broken is not None:
            raise self.broken
        if self.dying is not None:
            phone.die(self.dying)
        return int(accepted)

    # Time

    def pass_time(self, seconds: float) -> None:
        for clock in (self.service.clock, *(phone.clock for phone in self.phones)):
            clock.advance(seconds)
            self.latest = max(self.latest, clock.now)

    @rule(seconds=st.sampled_from((25, 1800, HOUR, 3 * HOUR, 5 * HOUR)))
    def wait(self, seconds: float) -> None:
        self.pass_time(seconds)
        self.service.seal_due()

    @rule(which=st.integers(0, 2), seconds=st.sampled_from((-3 * HOUR, -HOUR, -400, 400, HOUR, 4 * HOUR)))
    def jump(self, which: int, seconds: float) -> None:
        """A clock is set, ahead or back."""
        clock = (self.service.clock, *(phone.clock for phone in self.phones))[which]
        clock.advance(seconds)
        self.latest = max(self.latest, clock.now)

    # The network

    @precondition(lambda self: self.held)
    @rule(place=st.integers(0, 99), again=st.booleans())
    def release(self, place: int, again: bool) -> None:
        """A request that was held back, or a copy, arrives: late, out of order, perhaps again."""
        request = self.held[place % len(self.held)]
        if not again:
            self.held.remove(request)
        self.deliver(request)

    # What befalls devices

    @rule(phone=phones, event=st.sampled_from(DeviceEvent))
    def device(self, phone: int, event: DeviceEvent) -> None:
        chosen = self.phones[phone]
        match event:
            case DeviceEvent.RESTARTED:
                chosen.stop()
                chosen.start()
            case DeviceEvent.KILLED:
                chosen.die()
            case DeviceEvent.POWER_CUT:
                chosen.die(chosen.synced)
            case DeviceEvent.UPGRADED:
                chosen.upgrade(min(chosen.version + 1, len(PLANS)))
            case DeviceEvent.FULL_AT_WRITE | DeviceEvent.FULL_AT_COMMIT:
                chosen.full = "" if chosen.full else event.value
            case DeviceEvent.BACKED_UP:
                chosen.back_up()
            case wish if chosen.device is not None:
                getattr(chosen.device, wish.value)()

    @precondition(lambda self: any(phone.backup for phone in self.phones))
    @rule(phone=phones, how=st.sampled_from(("stopped", "running", "killed")), fates=fates)
    def restore(self, phone: int, how: str, fates: list[Fate]) -> None:
        """The state file of some time ago comes back, and the device goes on from there."""
        chosen = self.phones[phone] if self.phones[phone].backup else self.phones[0]
        self.witness.excuse(chosen)
        chosen.restore(how)
        self.flush(chosen, fates)

    # What befalls the collector

    @rule(event=st.sampled_from(CollectorEvent))
    def collector(self, event: CollectorEvent) -> None:
        match event:
            case CollectorEvent.SEALS:
                self.service.seal_due()
            case CollectorEvent.KILLED:
                self.service.die()
                self.store_full = False
            case CollectorEvent.KILLED_SEALING:
                self.service.seal_due(dying=True)
            case CollectorEvent.UPGRADED if not self.store_full:
                self.service.restart(min(self.service.versions + 1, len(PLANS)))
            case CollectorEvent.DISK:
                self.store_full = not self.store_full
        self.service.store.backend.limit(full=self.store_full)

    @invariant()
    def the_laws_hold(self) -> None:
        self.witness.check(self.service)

    def teardown(self) -> None:
        try:
            if self.phones and self.broken is None:
                self.heal()
                self.look_for_values()
        finally:
            self.cleanup.close()

    def heal(self) -> None:
        """All faults end: the next round of every device is accepted, all is sealed, nothing is amiss."""
        self.service.store.backend.limit(full=False)
        self.store_full = False
        newest = max(phone.version for phone in self.phones)
        if newest > self.service.versions:
            self.service.restart(newest)
        for clock in (self.service.clock, *(phone.clock for phone in self.phones)):
            clock.now = self.latest + 4 * HOUR
        for phone in self.phones:
            phone.full = ""
            if phone.device is None:
                phone.start()
            assert phone.device is not None
            phone.device.resume()
        self.pass_time(2 * HOUR)
        for phone in self.phones:
            assert self.flush(phone, []), phone.name
            self.witness.check_receipt(phone)
        self.the_laws_hold()
        self.pass_time(4 * HOUR)
        self.service.seal_due()
        assert self.service.store.unsealed() == []
        self.the_laws_hold()
        self.service.die()
        self.the_laws_hold()
        assert self.service.store.verify() == []

    def look_for_values(self) -> None:
        """What the collector has written, logs included, holds nothing that was measured."""
        self.witness.secrets |= {phone.secret() for phone in self.phones}
        for part in (*files_of(self.service.path), self.log.getvalue().encode(), bytes(self.witness.public)):
            self.witness.show(part)
