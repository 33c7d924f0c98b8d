"""
State files with damage in every region: never another secret in silence, never a surprise for the host.

`device/tests/device/test_statefile.py` has the kinds of files there are (fresh, foreign, locked, newer, broken as a
whole); `test_disks.py` has full, locked and read-only disks. Here the damage is small and anywhere.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from math import inf
from pathlib import Path

import pytest
from tests.shared.devices import HERE, SECONDS, clock_in, identity
from tests.shared.plans import APP_USAGE, EDITOR_HOURS, EDITOR_SECONDS
from tests.shared.state_files import damage, what_is_in

from reticent.device import Device, Policy
from reticent.device.statefile import StateFile
from reticent.errors import StateError
from reticent.losses import compose
from reticent.plan import Plan
from reticent.reports import Report, from_json, to_json
from reticent.testing import ManualClock, RecordingTransport

PLAN = Plan.from_toml(APP_USAGE + EDITOR_SECONDS + EDITOR_HOURS)
VALUES = {"editor_seconds": 5_000, "editor_hours": 12_000}


class Original:
    """A state file with a secret, a report that waits, values of the round under way, and a past epoch."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "original"
        clock = clock_in()
        with Device(PLAN, self.path, consent="granted", clock=clock, policy=Policy.unlimited()) as device:
            device.forget()
            clock.advance(2 * SECONDS)
            device.flush()
            for name, value in VALUES.items():
                device.add(name, value)
        self.now = clock.now
        self.content = self.path.read_bytes()
        self.identity = identity(self.path)
        self.secret = self.identity.secret

    def law(self, number: int, values: dict[str, int]) -> Report:
        return self.identity.law(PLAN, number, values)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Original:
    return Original(tmp_path_factory.mktemp("original"))


def opened(original: Original, content: bytes, folder: Path) -> str:
    """
    What becomes of a damaged file: "left alone", "quarantined" or "used"; nothing else may.

    Left alone: the device is silent, and the file is as it was. Used: the secret and the epoch are the original's,
    and so is a report made now. Quarantined: the old file is beside, the new epoch says so. It has a later
    number, unless the old one could not be read: then at least epoch 0 is counted as lost.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    state = folder / "state"
    state.write_bytes(content)
    clock, transport = ManualClock(original.now), RecordingTransport()
    device = Device(
        PLAN, state, consent="granted", clock=clock, transport=transport, policy=Policy.unlimited()
    )
    if device.status().problem:
        assert state.read_bytes() == content
        return "left alone"
    with closing(device):
        assert device.set_consent("granted"), "asked again, where the choice could not be read"
        secret, epoch = identity(state)
        aside = folder / f"state.quarantined-{epoch}"
        if not aside.exists():
            assert (secret, epoch) == original.identity, "a silent redraw"
            report = device.report(HERE + 2)
            assert report is None or report.id == original.law(HERE + 2, {}).id
            device.flush()
            waited = [body for body in transport.bodies if from_json(body).round == HERE + 1]
            assert waited in ([], [to_json(original.law(HERE + 1, {}))]), "bits that were never drawn"
            return "used"
        assert secret != original.secret
        assert aside.read_bytes()[4096:] == content[4096:]
        check_ledger(device, epoch)
        assert all(file.stat().st_mode & 0o777 == 0o600 for file in folder.iterdir())
        clock.advance(SECONDS / 2)
        device.flush()
        assert transport.bodies == [], "a round that had begun is answered under another secret"
        return "quarantined"


def check_ledger(device: Device, epoch: int) -> None:
    """
    The new epoch is entered with its reason, and all that the file can have held as lost.

    It held two epochs, of which the sum is exact where its checksum fits; else there is no bound, since the
    policy sets none.
    """
    receipt = device.receipt()
    assert epoch >= 1
    assert receipt.epochs[-1].number == epoch
    assert receipt.epochs[-1].reason.startswith("quarantined: ")
    [lost] = [entry for entry in receipt.losses if entry.lost]
    one_epoch = compose(entry.lifetime for entry in receipt.losses if entry.epoch == epoch)
    is_unknown = "what it held is unknown" in receipt.epochs[-1].reason
    assert lost.epoch == epoch - 1
    assert lost.loss == lost.lifetime == (inf if is_unknown else pytest.approx(2 * one_epoch, rel=1e-12))


def pages(content: bytes) -> Iterator[slice]:
    for start in range(0, len(content), 4096):
        yield slice(start, start + 4096)


def test_an_undamaged_copy_is_used(original: Original, tmp_path: Path) -> None:
    assert opened(original, original.content, tmp_path / "copy") == "used"
    with Device(
        PLAN, original.path, consent="granted", clock=ManualClock(original.now), policy=Policy.unlimited()
    ) as device:
        assert device.report(HERE + 2) == original.law(HERE + 2, VALUES)
    original.path.write_bytes(original.content)


@pytest.mark.parametrize("filling", [0x00, 0xFF, 0x41])
def test_each_page_overwritten(original: Original, tmp_path: Path, filling: int) -> None:
    """Zeros are what many file systems leave of a page that was never written."""
    outcomes = []
    for page in pages(original.content):
        content = bytearray(original.content)
        content[page] = bytes([filling]) * 4096
        outcomes.append(opened(original, bytes(content), tmp_path / "state"))
    assert outcomes[0] == "quarantined", "the header is there"
    assert "left alone" not in outcomes
    assert outcomes.count("quarantined") >= len(outcomes) - 2


def test_each_page_a_file_can_be_cut_in(original: Original, tmp_path: Path) -> None:
    """Before a page, or in its middle; of the last page, the first half may be all there is."""
    lengths = [page.start + part for page in pages(original.content) for part in (0, 2048)][1:]
    outcomes = [opened(original, original.content[:length], tmp_path / "state") for length in lengths]
    assert set(outcomes[:-1]) == {"quarantined"}


def test_each_byte_of_the_header(original: Original, tmp_path: Path) -> None:
    """The application's number and the layout's version say that a file is not ours to touch."""
    outcomes = {}
    for place in range(100):
        content = bytearray(original.content)
        content[place] ^= 0xFF
        outcomes[place] = opened(original, bytes(content), tmp_path / "state")
    alone = {place for place, outcome in outcomes.items() if outcome == "left alone"}
    assert alone >= {*range(60, 64), *range(68, 72)}
    assert {outcomes[place] for place in range(16)} == {"quarantined"}, "not a database"


def test_each_byte_of_the_secret_and_each_bit_of_one(original: Original, tmp_path: Path) -> None:
    """A secret has no wrong values: only its checksum tells that it is another one."""
    start = original.content.index(original.secret)
    assert original.content.count(original.secret) == 1
    for place, mask in [*((place, 0xFF) for place in range(32)), *((9, 1 << bit) for bit in range(8))]:
        content = bytearray(original.content)
        content[start + place] ^= mask
        assert opened(original, bytes(content), tmp_path / "state") == "quarantined"


def merge_the_log(state: Path) -> None:
    """All of it is in one file."""
    with closing(sqlite3.connect(state)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")


@pytest.mark.parametrize(
    ("column", "value"),
    [("epoch", "epoch + 1"), ("epoch", "0"), ("secret", "randomblob(32)"), ("checksum", "x''")],
)
def test_who_the_device_is_cannot_change_unnoticed(
    original: Original, tmp_path: Path, column: str, value: str
) -> None:
    """Also when all of SQLite's own checks pass."""
    copy = tmp_path / "copy"
    copy.write_bytes(original.content)
    damage(copy, "device", {column: value})
    merge_the_log(copy)
    if value != "0":
        assert opened(original, copy.read_bytes(), tmp_path / "state") == "quarantined"
        return
    with Device(
        PLAN, copy, consent="granted", clock=ManualClock(original.now), policy=Policy.unlimited()
    ) as device:
        assert device.receipt().epochs[-1].reason.startswith("quarantined: ")
    assert identity(copy)[0] != original.secret


def test_each_bit_of_a_report_that_waits(original: Original, tmp_path: Path) -> None:
    """Its id may have gone out already: with a flipped bit it is not sent, and the device says so."""
    law = original.law(HERE + 1, {})
    for place in range(8 * len(law.bits)):
        bits = bytearray(law.bits)
        bits[place // 8] ^= 1 << place % 8
        state = tmp_path / f"state-{place}"
        state.write_bytes(original.content)
        [waiting] = what_is_in(state).waiting
        assert waiting.bits == law.bits
        damage(state, "reports", {"bits": f"x'{bits.hex()}'"})
        transport = RecordingTransport()
        with Device(
            PLAN,
            state,
            consent="granted",
            clock=ManualClock(original.now),
            transport=transport,
            policy=Policy.unlimited(),
        ) as device:
            device.flush()
            assert transport.bodies == []
            assert device.report(HERE + 1) is None
            assert "report-damaged" in device.status().notes
        assert identity(state) == original.identity


@pytest.mark.parametrize(
    ("table", "column", "value"),
    [
        ("plans", "layout", "x'5bff5d'"),
        ("plans", "layout", "'[[1]]'"),
        ("plans", "layout", "CAST(x'5b22ff225d' AS TEXT)"),
        ("ledger", "classes", "'x'"),
        ("reports", "segment", "'{'"),
        ("reports", "next_try", "'soon'"),
        ("plans", "from_round", "x'00'"),
    ],
)
def test_rows_that_cannot_be_read_are_quarantined(
    original: Original, tmp_path: Path, table: str, column: str, value: str
) -> None:
    copy = tmp_path / "copy"
    copy.write_bytes(original.content)
    assert damage(copy, table, {column: value}) >= 1
    merge_the_log(copy)
    assert opened(original, copy.read_bytes(), tmp_path / "state") == "quarantined"


def test_a_file_that_another_process_writes_to_is_locked(
    original: Original, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be read meanwhile, so the lock shows late: as a `StateError`, all the same."""
    monkeypatch.setattr(StateFile.__init__, "__defaults__", (0.1,))  # seconds to wait for it
    state = tmp_path / "state"
    state.write_bytes(original.content)
    with closing(sqlite3.connect(state, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        clock = ManualClock(original.now)
        with pytest.raises(StateError, match="locked by another process"):
            Device(PLAN, state, consent="granted", clock=clock, policy=Policy.unlimited(), debug=True)
        other.execute("ROLLBACK")
    assert identity(state) == original.identity


def flips(seed: int, size: int, count: int) -> list[tuple[int, int]]:
    chance = random.Random(seed)
    return [(chance.randrange(size), 1 << chance.randrange(8)) for _ in range(count)]


def scattered(original: Original, folder: Path, seeds: range) -> Counter[str]:
    """What becomes of files with 1, 8 or 64 flipped bits, by fixed seeds."""
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        content = bytearray(original.content)
        for place, mask in flips(seed, len(content), (1, 8, 64)[seed % 3]):
            content[place] ^= mask
        outcomes[opened(original, bytes(content), folder)] += 1
    return outcomes


def test_bits_flipped_anywhere(original: Original, tmp_path: Path) -> None:
    outcomes = scattered(original, tmp_path / "state", range(120))
    assert outcomes["quarantined"] >= 20
    assert outcomes["used"] >= 20, "most of a small file is empty space"


@pytest.mark.soak
def test_bits_flipped_anywhere_at_length(original: Original, tmp_path: Path) -> None:
    assert scattered(original, tmp_path / "state", range(1_000, 3_000)).total() == 2_000


def test_the_checksum_is_what_notices_a_flipped_secret(
    original: Original, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the check of these tests fails: it can."""
    content = bytearray(original.content)
    content[original.content.index(original.secret)] ^= 1
    monkeypatch.setattr("reticent.device.schema.checksum", lambda *_: right)
    with closing(sqlite3.connect(original.path)) as connection:
        [(right,)] = connection.execute("SELECT checksum FROM device")
    with pytest.raises(AssertionError, match="a silent redraw"):
        opened(original, bytes(content), tmp_path / "state")


def test_a_damaged_file_that_others_could_read_is_private_once_set_aside(
    original: Original, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    for suffix in ("", "-wal", "-shm"):
        content = b"x" * 4096 if suffix else original.content[:100] + b"x" * 4096
        (tmp_path / f"state{suffix}").write_bytes(content)
        os.chmod(tmp_path / f"state{suffix}", 0o644)
    before = os.umask(0)
    try:
        with Device(
            PLAN, state, consent="granted", clock=ManualClock(original.now), policy=Policy.unlimited()
        ) as device:
            device.add("editor_seconds", 5)
            modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}
    assert {
        "state",
        "state-wal",
        "state-shm",
        "state.quarantined-1",
        "state.quarantined-1-wal",
    } <= modes.keys()
