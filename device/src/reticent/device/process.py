"""A device in its host's process: its two threads (one writes values, one answers and sends), forks, and exit."""

from __future__ import annotations

import atexit
import os
import sys
import time
from _thread import start_new_thread
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event, Lock, Thread, current_thread
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from reticent.device.pending import Faults, kind_of
from reticent.device.state import records
from reticent.errors import ParameterError
from reticent.frozen import frozen

if TYPE_CHECKING:
    from reticent.device.policy import Policy
    from reticent.device.session import Session
    from reticent.device.state import Consent
    from reticent.device.transport import Transport
    from reticent.plan import Plan

WRITE_AFTER = 0.5
"""Values wait in memory, s, so that many are one write; they are in the file within a second."""
LONGEST_SLEEP = 300.0
SHORTEST_SLEEP = 0.05
SLEEP_IN_TROUBLE = 30.0
LONGEST_CLOSE = 2.0  # how long `close` and the end of the program wait for a locked file, s
LONGEST_EXIT = 30.0  # how long the end of the program waits for a file that others are writing to, s


class Writer:
    """
    Calls `write` half a second after the first value came, until it returns that nothing waits any more.

    Its thread is a bare one, and ends when it has nothing to do: `threading.Thread` takes locks that the host
    may hold just now, in a signal handler.
    """

    def __init__(self, write: Callable[[], bool], faults: Faults) -> None:
        self._write = write
        self._faults = faults
        self._running = Lock()  # held while there is a thread

    def wake(self) -> None:
        """Something waits in memory."""
        if not self._running.locked() and self._running.acquire(blocking=False):
            try:
                _watch_exit_of_child()
                start_new_thread(self._run, ())
            except BaseException:
                self._running.release()
                raise

    def _run(self) -> None:
        seconds, done = WRITE_AFTER, False
        while not done:
            time.sleep(seconds)
            seconds = min(2 * seconds, SLEEP_IN_TROUBLE)
            with self._faults:
                done = self._write()
                seconds = WRITE_AFTER
        self._running.release()
        # A value may have come after the last look and before the release, and have found this thread running.
        done = False
        with self._faults:
            done = self._write()
        if not done:
            self.wake()


class Sender:
    """Calls `work` in a daemon thread, again after as many seconds as it returns."""

    def __init__(self, work: Callable[[], float], faults: Faults) -> None:
        self._work = work
        self._faults = faults
        self._starting = Lock()
        self._running: tuple[Thread, Event] | None = None

    def start(self) -> None:
        """See that there is a thread."""
        with self._starting:
            if self._running is None:
                stop = Event()
                thread = Thread(target=self._run, args=(stop,), name="reticent", daemon=True)
                thread.start()  # raises where the process may have no more threads: tried again later
                self._running = thread, stop

    def stop(self) -> None:
        """End the thread; wait only as long as it takes when it is idle."""
        running, self._running = self._running, None
        if running is not None:
            thread, stop = running
            stop.set()
            if thread is not current_thread():
                thread.join(timeout=0.1)

    def _run(self, stop: Event) -> None:
        seconds = 0.0
        while not stop.wait(seconds):
            seconds = SLEEP_IN_TROUBLE
            with self._faults:
                seconds = min(max(self._work(), SHORTEST_SLEEP), LONGEST_SLEEP)


# Forks, and the end


_devices: WeakValueDictionary[int, Hosted] = WeakValueDictionary()
_resting: list[Hosted] = []
_finalized_in: list[int] = []


def _living() -> list[Hosted]:
    """The devices, also while another thread opens one: the references are copied in one step."""
    return [device for reference in _devices.valuerefs() if (device := reference()) is not None]


def _watch_exit_of_child() -> None:
    """
    Call `before_exit` in a child that `multiprocessing` made: it ends without running `atexit`.

    Not possible before the child runs: `multiprocessing` drops the finalizers that it inherits.
    """
    util = sys.modules.get("multiprocessing.util")
    if util is not None and os.getpid() not in _finalized_in:
        from multiprocessing import parent_process

        if parent_process() is not None:
            _finalized_in[:] = [os.getpid()]
            util.Finalize(None, _before_exit, exitpriority=0)


def _before_fork() -> None:
    for device in _living():
        device.before_fork()
        _resting.append(device)


def _after_in_parent() -> None:
    while _resting:
        _resting.pop().after_fork_in_parent()


def _after_in_child() -> None:
    while _resting:
        _resting.pop().after_fork_in_child()


def _before_exit() -> None:
    for device in _living():
        device.before_exit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
atexit.register(_before_exit)


# A device


@frozen()
class Settings:
    """What the host said about its device."""

    plan: Plan | None  #: None: whatever the state file holds
    state: str  #: The absolute path of the state file
    segment: Mapping[str, object]
    policy: Policy
    clock: Callable[[], float]
    default_consent: Consent | None  #: What holds until the person chooses; None: what held last
    makes_folder: bool  #: Whether the folder of the state file is this device's to make
    ask_again: bool  #: Whether a choice lapses when a plan asks for more than it was made for
    leaves_log: bool = False  #: Whether another process copies and wipes the log of the state file


class Hosted:
    """The part of a device that runs in its host's process without being called."""

    def __init__(self, settings: Settings, transport: Transport | None, *, debug: bool = False) -> None:
        self._settings = settings
        self._transport = transport
        self._debug = debug
        self._faults = Faults()
        self._session: Session | None = None  # none: nothing is kept, or the state cannot be used
        self._started = False
        self._closed = False
        self._start_over()
        if debug or settings.plan is None:
            self._find_session()
            return
        with self._faults:  # telemetry does not decide whether a program starts
            self._find_session()

    def _find_session(self, *, makes: bool = False) -> Session | None:
        """
        The session. There is none, and no file, until a file exists or is to be made, by a choice or by default.

        Raises where the state cannot be used: the device stays silent, and tries again at a later call.
        """
        settings = self._settings
        is_agreed = settings.default_consent in ("granted", "local") and not settings.policy.silenced_by()
        wanted = makes or is_agreed or settings.plan is None or os.path.exists(settings.state)
        if self._session is None and wanted:
            from reticent.device.session import Session

            if settings.makes_folder and os.path.isabs(settings.state):
                with suppress(OSError):  # the state file says what is wrong with its folder
                    os.makedirs(os.path.dirname(settings.state), mode=0o700, exist_ok=True)
            session = Session(settings, self._faults)
            self._faults.problem = ""
            if self._session is None:
                self._session = session
                _devices[id(self)] = self  # for forks and the end of the process
            else:  # another thread was first: what waits in memory, and the consent, are those of one session
                session.file.close()
        return self._session

    def _refresh_consent(self) -> None:
        """Adopt what another process may have chosen in the file, which it may have made as well."""
        if self._closed:
            return
        session = self._find_session()
        if session is not None:
            session.refresh_consent()

    def _start_over(self) -> None:
        self._writer = Writer(self._write_soon, self._faults)
        self._sender = Sender(self._send_soon, self._faults)

    def _write_soon(self) -> bool:
        """What the writer's thread does; in a child it also starts the other one."""
        self._keep_running()
        return self._write_pending(0.25)

    def _write_pending(self, patience: float) -> bool:
        """Write pending values, unless they are not to be kept; returns whether nothing waits any more."""
        session = self._session
        if session is None:
            return True
        session.keep_rules(self._settings.policy.silenced_by())
        if not session.records_values:
            return True
        session.write_pending(patience)
        if session.has_pending:
            return False
        if self._closed:
            session.file.close()
        return True

    def _keep_rules(self) -> Session | None:
        """Enter the rules that silence the device; returns the session, if there is consent and none of them holds."""
        session = self._session
        if session is None or self._closed:
            return None
        session.keep_rules(self._settings.policy.silenced_by())
        return session if records(session.consent) and not session.run.silenced_by else None

    def _keep_running(self) -> None:
        """After `start`, see that the thread runs that sends, as soon as there is consent."""
        if not self._started or self._transport is None:
            return
        can_come_back = self._session is None and self._faults.problem
        if can_come_back or self._keep_rules() is not None:
            self._sender.start()

    def _send_soon(self) -> float:
        """What the background thread does: answer and send what is due; returns the seconds until it is due again."""
        session, transport = self._work_on_state(), self._transport
        if session is None or transport is None:
            return LONGEST_SLEEP
        session.send_due(transport, time.monotonic() + 60.0, early=False)
        return session.next_due() - self._settings.clock()

    def _work_on_state(self) -> Session | None:
        """Write pending values, then answer what is due; None where nothing is sent, of earlier rounds neither."""
        self._refresh_consent()
        session = self._keep_rules()
        if session is not None:
            session.write_pending(2.0)
        if self._session is not None and not self._closed:
            self._session.answer_due()  # a report that waits too long expires, also in a pause
        return session

    def before_fork(self) -> None:
        """Come to rest, and release what must not be inherited; pending values are this process's to write."""
        with self._faults:
            self._write_pending(0.25)
        if self._session is not None:
            self._session.file.before_fork()

    def after_fork_in_parent(self) -> None:
        """Go on."""
        if self._session is not None:
            self._session.file.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Start over."""
        self._faults.after_fork_in_child()
        self._start_over()
        if self._session is not None:
            self._session.file.after_fork_in_child()

    def before_exit(self) -> None:
        """
        Write pending values.

        While others hold the file and make progress, wait: a hundred children that end at once write one after
        the other. A file that is locked and does not change is waited for once.
        """
        session, deadline = self._session, time.monotonic() + LONGEST_EXIT
        while session is not None:
            stamp = session.file.stamp()
            try:
                self._write_pending(LONGEST_CLOSE)
                return
            except Exception as error:
                fault = kind_of(error)
                self._faults.add(fault)
            if fault != "state-busy" or session.file.stamp() == stamp or time.monotonic() > deadline:
                return


def absolute(state: str | os.PathLike[str]) -> str:
    """The absolute path of the state file: the program may change its folder. It stays as it is where that is gone."""
    try:
        path = os.fsdecode(state)
    except TypeError:
        raise ParameterError("state", "the path of a file", type(state).__name__) from None
    with suppress(OSError):
        return os.path.join(os.getcwd(), path)
    return path


def default_state(plan: str) -> str:
    """
    The state file of a plan where the program names none: `reticent/PLAN.db` in the user's folder for such files.

    That is `$XDG_STATE_HOME` or `~/.local/state`, on macOS `~/Library/Application Support`, on Windows
    `%LOCALAPPDATA%`. Where there is no home, it is no absolute path.
    """
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        folder = os.path.join(home, "Library", "Application Support")
    elif sys.platform == "win32":
        folder = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    else:
        given = os.environ.get("XDG_STATE_HOME", "")
        folder = given if os.path.isabs(given) else os.path.join(home, ".local", "state")
    return os.path.join(folder, "reticent", f"{plan}.db")
