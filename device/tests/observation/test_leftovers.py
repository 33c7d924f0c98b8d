"""Nothing of a value, a secret or an id in logs, errors, output, core files or files left behind."""

from __future__ import annotations

import base64
import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.shared.plans import APP_USAGE
from tests.shared.processes import tracked_environment

from reticent.device import Device, Policy
from reticent.errors import StateError
from reticent.plan import Plan

PLAN_TEXT = (
    APP_USAGE
    + """
[metrics.editor_seconds]
kind = "mean"
max_value = 21600
epsilon = 1.0
"""
)
PRELUDE = """
import gc, logging, os, signal, sqlite3, sys, traceback, warnings
from fractions import Fraction
from pathlib import Path
logging.basicConfig(level=logging.DEBUG)
logging.captureWarnings(True)
warnings.simplefilter("always")
from reticent.device import Policy, Device
from reticent.device.schema import load
from reticent.plan import Plan
from reticent.testing import ManualClock, RecordingTransport

PLAN = Plan.from_toml('''PLAN_TEXT''')
VALUE = Fraction(12345678901, 2000003)
clock = ManualClock(80_000 * 21_600 + 60.0)

class Breaking:
    def send(self, body, timeout):
        raise RuntimeError(body)

device = Device(PLAN, "place/state", consent="granted", clock=clock, transport=Breaking(), policy=Policy.unlimited())
secret = load(sqlite3.connect("place/state")).secret
device.add("editor_seconds", VALUE)
""".replace("PLAN_TEXT", PLAN_TEXT)


def lived(folder: Path, script: str) -> tuple[subprocess.CompletedProcess[bytes], bytes]:
    """Runs a script that writes what is private to a pipe of its own; returns that, too."""
    (folder / "place").mkdir()
    (folder / "temporary").mkdir()
    reading, writing = os.pipe()
    environment = tracked_environment()
    environment |= dict.fromkeys(("TMPDIR", "SQLITE_TMPDIR", "HOME"), str(folder / "temporary"))
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PRELUDE + textwrap.dedent(script), str(writing)],
        capture_output=True,
        cwd=folder,
        env=environment,
        pass_fds=[writing],
        preexec_fn=allow_core_files,
        check=False,
        timeout=60,
    )
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        return done, pipe.read()


def allow_core_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def spellings(content: bytes) -> list[bytes]:
    """How bytes may turn up in words."""
    return [
        content,
        content.hex().encode(),
        base64.urlsafe_b64encode(content).rstrip(b"="),
        repr(content).encode(),
    ]


VALUE = [b"12345678901", b"6172.94", b"6172.9"]
"""The value as a fraction, and as a decimal."""

FAULTS = """
device._session.file.wipe_log()
clock.advance(2 * 21_600)
assert device.flush() == 0                               # a transport that raises, with the body in its words
device.add("editor_seconds", {"a": VALUE})               # a value that is none
device.add(VALUE, VALUE, round="x")
report = device.report()
os.write(int(sys.argv[1]), secret + report.id)
import reticent.device.answers
def broken(*_, **__):
    raise ValueError(VALUE, secret)
reticent.device.answers.answer = broken                   # a fault of our own, with a value in its words
clock.advance(21_600)
assert device.report() is None
assert device.status().notes["internal"] == 1
print(device, device.status(), repr(device), device.plan is not None)
Path("place/state").write_bytes(b"broken" * 1000)
device.add("editor_seconds", VALUE)
device.close()
gc.collect()
"""


def test_nothing_is_logged_or_printed(tmp_path: Path) -> None:
    """Every kind of fault, with logging and warnings on and -X dev: what is printed holds nothing private."""
    done, private = lived(tmp_path, FAULTS)
    assert done.returncode == 0, done.stderr
    secret, report_id = private[:32], private[32:]
    assert len(report_id) == 16
    output = done.stdout + done.stderr
    assert b"app-usage" in done.stdout
    for word in (*VALUE, *spellings(secret), *spellings(report_id)):
        assert word not in output, word


def test_this_search_would_find_a_leak(tmp_path: Path) -> None:
    done, private = lived(
        tmp_path,
        """
        logging.getLogger("host").warning("sent %s", device._recorded(80_000))
        os.write(int(sys.argv[1]), secret)
        print(secret.hex())
        """,
    )
    output = done.stdout + done.stderr
    assert any(word in output for word in VALUE)
    assert any(word in output for word in spellings(private[:32]))


@pytest.mark.parametrize("moment", ["after-writing", "after-report", "in-a-transaction", "while-sending"])
def test_a_killed_process_leaves_its_state_file_and_nothing_else(tmp_path: Path, moment: str) -> None:
    """Core files are allowed here: SIGKILL makes none, and nothing of reticent's makes one."""
    script = """
    os.write(int(sys.argv[1]), secret)
    moment = MOMENT
    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)
    device.save()
    if moment == "after-report":
        device.report(80_000)
    elif moment == "in-a-transaction":
        with device._session.file.transaction() as connection:
            connection.execute("UPDATE totals SET value = value")
            die()
    elif moment == "while-sending":
        Breaking.send = die
        clock.advance(2 * 21_600)
        device.flush()
    die()
    """.replace("MOMENT", repr(moment))
    done, private = lived(tmp_path, script)
    assert done.returncode == -signal.SIGKILL
    assert len(private) == 32
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    lock = {"place/state-opening", *(["place/state-sending"] if moment == "while-sending" else [])}
    assert left == {"place/state", "place/state-wal", "place/state-shm", "place/state-limits"} | lock
    for name in left:
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600, name
    assert VALUE[0] not in (tmp_path / "place/state-shm").read_bytes()
    assert private not in (tmp_path / "place/state-shm").read_bytes()
    held = b"".join((tmp_path / name).read_bytes() for name in ("place/state", "place/state-wal"))
    assert private in held, "the search looks for the right bytes"
    assert (VALUE[0] in held) is (moment in ("after-writing", "in-a-transaction"))


def test_errors_at_construction_hold_nothing_of_the_file(tmp_path: Path) -> None:
    """A file of another program, with words in it that are nobody's business."""
    plan = Plan.from_toml(PLAN_TEXT)
    state = tmp_path / "state"
    with Device(plan, state, consent="granted", policy=Policy.unlimited()) as device:
        device.add("editor_seconds", 4_711)
    content = bytearray(state.read_bytes())
    content[68:72] = b"mine"
    state.write_bytes(content)
    with pytest.raises(StateError, match="another program's") as caught:
        Device(plan, state, consent="granted", policy=Policy.unlimited(), debug=True)
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None
