"""
All that was seen from outside, and the laws that are held against it.

    a report is counted once if it was acknowledged, and at most once if it was not
    a report, by its id, is one payload on the wire, and a device answers a round once
    what is sealed never changes
    no value, and no secret, is anywhere but on its device

The one exception is the documented one: a device restored from a backup may answer again, differently,
a round that it had answered after the backup was taken. Under one version of the plan it still counts once.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections import defaultdict
from typing import Any

from tests.simulator.phone import Phone
from tests.simulator.service import Service
from tests.simulator.world import PLANS

from reticent.reports import Report, from_json, to_json
from reticent_collector.counts import count_reports
from reticent_collector.stores import Layout, RoundKey

LAYOUTS = {plan.version: Layout(plan) for plan in PLANS}


class Witness:
    """Sees every request and answer, looks into the store's file, and forgets nothing."""

    def __init__(self) -> None:
        # What was seen on the wire.
        self.payloads: dict[bytes, set[bytes]] = defaultdict(set)
        self.owners: dict[bytes, tuple[str, int, int]] = {}
        self.told: dict[tuple[str, int], set[bytes]] = defaultdict(set)
        """By device and round: the ids of its reports."""
        self.excused: set[tuple[str, int]] = set()
        # What was said about it, and what the store holds.
        self.acknowledged: dict[RoundKey, set[bytes]] = defaultdict(set)
        self.unanswered: dict[RoundKey, set[bytes]] = defaultdict(set)
        self.counted: dict[RoundKey, dict[bytes, bytes]] = {}
        self.sealed: dict[RoundKey, list[Any]] = {}
        self.answers = 0
        self.seen: object = None
        # What must stay on the devices, and all that others have seen.
        self.measured: set[int] = set()
        self.secrets: set[bytes] = set()
        self.public = bytearray()

    # The wire

    def see(self, phone: Phone, report: Report, raw: bytes) -> None:
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

    def hear(self, report: Report, answer: bytes | None) -> None:
        """The collector has said something to a report, or nothing."""
        key = RoundKey(report.plan, report.version, report.round)
        self.answers += 1
        status = 0 if answer is None else int(answer[9:12])
        if status == 202:
            self.acknowledged[key].add(report.id)
        elif status in (0, 503):
            self.unanswered[key].add(report.id)
        else:
            assert status in (409, 410, 425), answer
        self.show(answer or b"")

    def excuse(self, phone: Phone) -> None:
        """It is about to be restored: rounds that its backup does not know may be answered again."""
        sent = {number for name, number in self.told if name == phone.name}
        self.excused |= {(phone.name, number) for number in sent - phone.answered_then}

    # The store

    def records(self, service: Service, key: RoundKey) -> dict[bytes, bytes]:
        """The reports of a round that is not sealed, by id, read from the file: of two the smallest."""
        [(number,)] = service.rows("SELECT id FROM rounds WHERE plan = ? AND version = ? AND round = ?", *key)
        groups = service.rows(f"SELECT records FROM records_{number} ORDER BY number")  # noqa: S608
        width = LAYOUTS[key.version].width
        records: dict[bytes, bytes] = {}
        for (group,) in groups:
            for start in range(0, len(group), width):
                record = group[start : start + width]
                records[record[:16]] = min(record, records.get(record[:16], record))
        return records

    def remember(self, service: Service, key: RoundKey) -> None:
        """A round is about to be sealed: what is in it now is what must be counted."""
        rows = service.rows("SELECT state FROM rounds WHERE plan = ? AND version = ? AND round = ?", *key)
        if rows and rows[0][0] != "sealed":
            self.counted[key] = self.records(service, key)

    def check(self, service: Service) -> None:
        """The laws hold; looked at only where something has changed."""
        if self.seen != (service.state(), self.answers):
            self.sealed_rounds_stay(service)
            self.acknowledged_reports_count_once(service)
            self.seen = service.state(), self.answers

    def acknowledged_reports_count_once(self, service: Service) -> None:
        known = {}
        for plan, version, number, state, reports in service.rows(
            "SELECT plan, version, round, state, reports FROM rounds"
        ):
            key = RoundKey(plan, version, number)
            known[key] = state
            if state != "sealed":
                self.counted[key] = self.records(service, key)
            assert state != "sealed" or reports == len(self.counted[key])
            self.check_round(service, key)
        for key, ids in self.acknowledged.items():
            assert not ids or key in known, "an acknowledged report is gone"
        assert self.sealed.keys() <= known.keys()
        assert all(known[key] == "sealed" for key in self.sealed)

    def check_round(self, service: Service, key: RoundKey) -> None:
        counted = self.counted[key]
        assert self.acknowledged[key] <= counted.keys(), "an acknowledged report is gone"
        assert counted.keys() <= self.acknowledged[key] | self.unanswered[key], "a refused report counts"
        layout = LAYOUTS[key.version]
        reports = []
        for name, record in counted.items():
            sent = {layout.pack(report): report for report in map(from_json, self.payloads[name])}
            assert record in sent, "what counts was never sent"
            reports.append(sent[record])
        expected = {tags: counts for (_, tags), counts in count_reports(reports, layout.plan).items()}
        assert service.store.counts(key) == expected, "counts are not those of the reports"

    def sealed_rounds_stay(self, service: Service) -> None:
        rows = service.rows(
            "SELECT plan, version, round, rounds.reports, tags, metric, counts.reports, ones"
            " FROM rounds LEFT JOIN counts ON round_id = id WHERE state = 'sealed' ORDER BY 1, 2, 3, 5, 6"
        )
        now: dict[RoundKey, list[Any]] = defaultdict(list)
        for plan, version, number, *rest in rows:
            now[RoundKey(plan, version, number)].append(rest)
        for key, before in self.sealed.items():
            assert now[key] == before, "a sealed round has changed"
        self.sealed = dict(now)

    # The device

    def check_receipt(self, phone: Phone) -> None:
        """The owner is shown all that has left the device, and as accepted only what was acknowledged."""
        assert phone.device is not None
        receipt = phone.device.receipt()
        listed = {bytes.fromhex(told.id) for told in receipt.reports}
        for (name, number), ids in self.told.items():
            assert name != phone.name or (name, number) in self.excused or ids <= listed, (
                "told and not listed"
            )
        for told in receipt.reports:
            key = RoundKey(receipt.plan, told.version, told.round)
            assert told.state != "accepted" or bytes.fromhex(told.id) in self.acknowledged[key], told


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
