"""
The whole system as a state machine: anything may happen, in any order, and after each step the laws hold.

    a report is counted once if it was acknowledged, and at most once if it was not
    a report, by its id, is one payload on the wire, and a device answers a round once
    what is sealed never changes
    no value, and no secret, is anywhere but on its device

The one exception is the documented one: a device restored from a backup may answer again, differently,
a round that it had answered after the backup was taken. Under one version of the plan it still counts once.
"""

from __future__ import annotations

import io
import struct
import sys
import tempfile
from base64 import urlsafe_b64encode
from collections import defaultdict
from contextlib import ExitStack, redirect_stderr
from enum import StrEnum
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tacit.counts import count_reports
from tacit.reports import Report, from_json, to_json
from tacit.stores import Layout, RoundKey


def _sibling(name: str) -> ModuleType:
    spec = spec_from_file_location(f"simulator_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


world = _sibling("world")

HOUR = world.HOUR
SHM = Path("/dev/shm")  # noqa: S108  (files in memory where there are such: syncs cost nothing there)
LAYOUTS = {plan.version: Layout(plan) for plan in world.PLANS}


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


fates = st.lists(st.sampled_from(Fate), min_size=1, max_size=3)
phones = st.sampled_from((0, 1))
values = st.sampled_from(world.VALUES)


class System(RuleBasedStateMachine):
    """Two devices, a collector, and what can go wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.cleanup = ExitStack()
        self.log = self.cleanup.enter_context(redirect_stderr(io.StringIO()))
        folder = tempfile.TemporaryDirectory(prefix="tacit-", dir=SHM if SHM.is_dir() else None)
        self.folder = Path(self.cleanup.enter_context(folder))
        self.cleanup.enter_context(world.watched_disks())
        self.service: Any = None
        self.fates: list[Fate] = []
        self.dying: Any = None
        self.broken: BaseException | None = None
        self.held: list[bytes] = []
        self.store_full = False
        self.latest = float(world.START)
        # What was seen on the wire.
        self.payloads: dict[bytes, set[bytes]] = defaultdict(set)
        self.owners: dict[bytes, tuple[str, int, int]] = {}
        self.told: dict[tuple[str, int], set[bytes]] = defaultdict(set)
        """By device and round: the ids of its reports."""
        self.excused: set[tuple[str, int]] = set()
        # What was said about it, and what the store holds.
        self.acknowledged: dict[RoundKey, set[bytes]] = defaultdict(set)
        self.unanswered: dict[RoundKey, set[bytes]] = defaultdict(set)
        self.first: dict[tuple[RoundKey, bytes], bytes] = {}
        """The record that was acknowledged before any other of its id was even tried."""
        self.counted: dict[RoundKey, dict[bytes, bytes]] = {}
        self.sealed: dict[RoundKey, list[Any]] = {}
        self.answers = 0
        self.seen: object = None
        # What must stay on the devices, and all that others have seen.
        self.measured: set[int] = set()
        self.secrets: set[bytes] = set()
        self.public = bytearray()

    @initialize(seed=st.integers(0, 7))
    def begin(self, seed: int) -> None:
        self.cleanup.enter_context(world.seeded_chance(seed))
        self.service = world.Service(self.folder, self.remember)
        self.phones = [world.Phone(self.folder, name, self.carry) for name in ("one", "two")]
        self.pass_time(HOUR)
        self.phones[0].back_up()
        self.secrets = {phone.secret() for phone in self.phones}

    # The wire

    def carry(self, phone: Any, request: bytes) -> bytes:
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

    def carry_as_fate_has_it(self, phone: Any, request: bytes) -> bytes:
        self.see(phone, from_json(request.partition(b"\r\n\r\n")[2]), request)
        fate = self.fates.pop(0) if self.fates else Fate.ARRIVES
        if fate is Fate.REQUEST_LOST:
            raise TimeoutError
        if fate is Fate.HELD:
            self.held.append(request)
            raise TimeoutError
        if fate in (Fate.DEVICE_DIES, Fate.POWER_CUT):
            self.dying = phone.synced if fate is Fate.POWER_CUT else world.files_of(phone.path)
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
        key = RoundKey(report.plan, report.version, report.round)
        store = self.service.store
        if fate is Fate.COLLECTOR_DIES_BEFORE:
            store.before = self.service.dies
        elif fate is Fate.COLLECTOR_DIES_AFTER:
            store.after = self.service.dies
        elif fate is Fate.SEALED_MEANWHILE and not self.store_full:
            store.before = store.seal
        elif fate is Fate.COMMIT_UNCERTAIN:
            store.before = lambda _: setattr(store, "answer_lost", True)
        answer: bytes | None = self.service.answer(request)
        self.answers += 1
        status = 0 if answer is None else int(answer[9:12])
        if status == 202:
            if report.id not in self.acknowledged[key] | self.unanswered[key]:
                self.first[key, report.id] = LAYOUTS[key.version].pack(report)
            self.acknowledged[key].add(report.id)
        elif status in (0, 503):
            self.unanswered[key].add(report.id)
        else:
            assert status in (409, 410, 425), answer
        self.show(answer or b"")
        if answer is None and self.store_full:
            self.service.store.limit(full=True)
        return answer

    def see(self, phone: Any, report: Report, raw: bytes) -> None:
        """A report has left its device: hold it against all that left before."""
        self.show(raw)
        owner = phone.name, report.version, report.round
        assert self.owners.setdefault(report.id, owner) == owner, "one id for two reports"
        self.payloads[report.id].add(to_json(report))
        self.told[phone.name, report.round].add(report.id)
        if (phone.name, report.round) not in self.excused:
            assert len(self.payloads[report.id]) == 1, "a report was drawn again"
            assert len(self.told[phone.name, report.round]) == 1, "a round was answered twice"

    def show(self, public: bytes) -> None:
        """Others see this: no value and no secret may be in it."""
        self.public += public
        for value in self.measured:
            for form in forms_of(value):
                assert form not in public, "a value has left the device"
        for secret in self.secrets:
            for form in (secret, secret.hex().encode(), urlsafe_b64encode(secret)[:42]):
                assert form not in public, "a secret has left the device"

    # Life on the devices

    @rule(phone=phones, metric=st.sampled_from(world.METRICS), value=values, replaces=st.booleans())
    def record(self, phone: int, metric: str, value: int, replaces: bool) -> None:
        device = self.phones[phone].device
        self.measured.add(value)
        if device is not None:
            (device.set if replaces else device.add)(metric, value)

    @rule(phone=phones, fates=fates)
    def send(self, phone: int, fates: list[Fate]) -> None:
        self.flush(self.phones[phone], fates)

    @rule(value=values, fates=fates)
    def live_through_a_round(self, value: int, fates: list[Fate]) -> None:
        self.measured.add(value)
        for phone in self.phones:
            if phone.device is not None:
                for metric in world.METRICS:
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
                self.see(chosen, report, to_json(report))

    def flush(self, phone: Any, fates: list[Fate]) -> int:
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
                chosen.upgrade(min(chosen.version + 1, len(world.PLANS)))
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
        sent = {number for name, number in self.told if name == chosen.name}
        self.excused |= {(chosen.name, number) for number in sent - chosen.answered_then}
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
                self.service.restart(min(self.service.versions + 1, len(world.PLANS)))
            case CollectorEvent.DISK:
                self.store_full = not self.store_full
        self.service.store.limit(full=self.store_full)

    # The laws

    def records(self, key: RoundKey) -> dict[bytes, bytes]:
        """The reports of a round that is not sealed, by id, read from the file: of two the first."""
        [(number,)] = self.service.rows(
            "SELECT id FROM round WHERE plan = ? AND version = ? AND round = ?", *key
        )
        groups = self.service.rows(f"SELECT records FROM records_{number} ORDER BY number")  # noqa: S608
        width = LAYOUTS[key.version].width
        found: dict[bytes, bytes] = {}
        for (group,) in groups:
            for start in range(0, len(group), width):
                found.setdefault(group[start : start + 16], group[start : start + width])
        return found

    def remember(self, key: RoundKey) -> None:
        """A round is about to be sealed: what is in it now is what must be counted."""
        rows = self.service.rows("SELECT state FROM round WHERE plan = ? AND version = ? AND round = ?", *key)
        if rows and rows[0][0] != "sealed":
            self.counted[key] = self.records(key)

    @invariant()
    def the_laws_hold(self) -> None:
        if self.service is not None and self.seen != (self.service.state(), self.answers):
            self.sealed_rounds_stay()
            self.acknowledged_reports_count_once()
            self.seen = self.service.state(), self.answers

    def acknowledged_reports_count_once(self) -> None:
        known = {}
        for plan, version, number, state, reports in self.service.rows(
            "SELECT plan, version, round, state, reports FROM round"
        ):
            key = RoundKey(plan, version, number)
            known[key] = state
            if state != "sealed":
                self.counted[key] = self.records(key)
            assert state != "sealed" or reports == len(self.counted[key])
            self.check_round(key)
        for key, ids in self.acknowledged.items():
            assert not ids or key in known, "an acknowledged report is gone"
        assert self.sealed.keys() <= known.keys()
        assert all(known[key] == "sealed" for key in self.sealed)

    def check_round(self, key: RoundKey) -> None:
        found = self.counted[key]
        assert self.acknowledged[key] <= found.keys(), "an acknowledged report is gone"
        assert found.keys() <= self.acknowledged[key] | self.unanswered[key], "a refused report counts"
        layout = LAYOUTS[key.version]
        reports = []
        for name, record in found.items():
            sent = {layout.pack(report): report for report in map(from_json, self.payloads[name])}
            assert record in sent, "what counts was never sent"
            assert self.first.get((key, name), record) == record, "a later report took the place of the first"
            reports.append(sent[record])
        expected = {tags: counts for (_, tags), counts in count_reports(reports, layout.plan).items()}
        assert self.service.store.counts(key) == expected, "counts are not those of the reports"

    def sealed_rounds_stay(self) -> None:
        rows = self.service.rows(
            "SELECT plan, version, round, round.reports, tags, metric, counts.reports, ones"
            " FROM round LEFT JOIN counts ON round_id = id WHERE state = 'sealed' ORDER BY 1, 2, 3, 5, 6"
        )
        now: dict[RoundKey, list[Any]] = defaultdict(list)
        for plan, version, number, *rest in rows:
            now[RoundKey(plan, version, number)].append(rest)
        for key, before in self.sealed.items():
            assert now[key] == before, "a sealed round has changed"
        self.sealed = dict(now)

    def teardown(self) -> None:
        try:
            if self.service is not None and self.broken is None:
                self.heal()
                self.look_for_values()
        finally:
            for phone in getattr(self, "phones", ()):
                phone.stop()
            if self.service is not None:
                self.service.close()
            self.cleanup.close()

    def heal(self) -> None:
        """All faults end: the next round of every device is accepted, all is sealed, nothing is amiss."""
        self.service.store.limit(full=False)
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
            phone.device.resume()
        self.pass_time(2 * HOUR)
        for phone in self.phones:
            assert self.flush(phone, []), phone.device.status()
            self.check_receipt(phone)
        self.the_laws_hold()
        self.pass_time(4 * HOUR)
        self.service.seal_due()
        assert self.service.store.unsealed() == []
        self.the_laws_hold()
        self.service.die()
        self.the_laws_hold()
        assert self.service.store.verify() == []

    def check_receipt(self, phone: Any) -> None:
        """The owner is shown all that has left the device, and as accepted only what was acknowledged."""
        receipt = phone.device.receipt()
        listed = {bytes.fromhex(told.id) for told in receipt.reports}
        for (name, number), ids in self.told.items():
            assert name != phone.name or (name, number) in self.excused or ids <= listed, (
                "told and not listed"
            )
        for told in receipt.reports:
            key = RoundKey(receipt.plan, told.version, told.round)
            assert told.state != "accepted" or bytes.fromhex(told.id) in self.acknowledged[key], told

    def look_for_values(self) -> None:
        """What the collector has written, logs included, holds nothing that was measured."""
        self.secrets |= {phone.secret() for phone in self.phones}
        for part in (*world.files_of(self.service.path), self.log.getvalue().encode(), bytes(self.public)):
            self.show(part)


def forms_of(value: int) -> tuple[bytes, ...]:
    """A value as it might stand somewhere."""
    return (
        str(value).encode(),
        b"%x" % value,
        value.to_bytes(8, "big")[3:],
        value.to_bytes(8, "little")[:5],
        struct.pack("<d", value),
        struct.pack(">d", value),
    )
