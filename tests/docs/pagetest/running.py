"""
A page done as a reader would: one shell and one Python in a new folder, beside copies of `examples/` and `device-js/`.

Commands are typed into one bash, so `cd` and variables last; what they print goes to a file each, as on a
plain terminal of 100 columns without colour. A command in the background has begun when it has printed what
the page says and something listens on the port that it names. Ports of this machine are swapped for free
ones, so that pages can run side by side.
"""

from __future__ import annotations

import difflib
import json
import os
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from pagetest.page import Block, Command, PageError, commands, matches, read_page

PATIENCE = 120.0
"""Seconds for one command: tells a hang from work."""
HERE = re.compile(r"(?:(?:127\.0\.0\.1|0\.0\.0\.0|localhost|\[::1?\]):|http\.server |--port )(\d{4,5})\b")
PORT = re.compile(r"(:|http\.server |--port )(\d{4,5})\b")


def run_page(page: Path, folder: Path, examples: Path, *, soak: bool = False) -> int:
    """Do what the page says in the folder, and return how many of its blocks were run, written or read."""
    text = page.read_text()
    blocks = [block for block in read_page(text) if not block.skipped and (soak or not block.soak)]
    for beside in (examples, examples.with_name("device-js")):
        if beside.is_dir():
            shutil.copytree(beside, folder / beside.name, ignore=shutil.ignore_patterns("__pycache__"))
    with Reader(folder, page, Ports(text)) as reader:
        for block in blocks:
            reader.do(block)
    return len(blocks)


class Ports:
    """Each port of this machine that a page names, and the free one that stands in for it."""

    def __init__(self, text: str) -> None:
        taken: dict[str, str] = {}
        for port in HERE.findall(text):
            taken.setdefault(port, free_port(len(port), set(taken.values())))
        self.there, self.back = taken, {mine: page for page, mine in taken.items()}

    def mine(self, text: str) -> str:
        """What the page says, with the ports that are used."""
        return PORT.sub(lambda found: found[1] + self.there.get(found[2], found[2]), text)

    def pages(self, text: str) -> str:
        """What was printed, with the ports of the page."""
        return PORT.sub(lambda found: found[1] + self.back.get(found[2], found[2]), text)


def free_port(digits: int, taken: set[str]) -> str:
    """A free port with so many digits, so that tables keep their widths; none that browsers refuse."""
    first = {4: 7_000, 5: 11_000}[digits]
    for port in random.sample(range(first, min(10**digits, 32_768)), 200):
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            if str(port) not in taken:
                return str(port)
    raise PageError("found no free port")


class Reader:
    """Somebody who does what the page says, block by block."""

    def __init__(self, folder: Path, page: Path, ports: Ports) -> None:
        self.folder, self.page, self.ports = folder, page, ports
        self.notes = folder.parent / "notes"
        self.notes.mkdir()
        self.shell = self._start("bash", "--norc", "--noprofile")
        self._python: subprocess.Popen[bytes] | None = None
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ask(self.shell, "kill $(jobs -p) 2>/dev/null; wait; echo", 10)  # servers get the time to end well
        for process in filter(None, (self.shell, self._python)):
            end_group(process)
            process.communicate()

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.notes / "stderr").open("ab") as complaints:
            return subprocess.Popen(
                command, cwd=self.folder, env=environment(self.folder), start_new_session=True, bufsize=0,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints,
            )  # fmt: skip

    def do(self, block: Block) -> None:
        """Write, run or read the block."""
        if block.file is not None:
            self.write(block.file, block.text)
        elif block.language == "console":
            for command in commands(block):
                self.type(command, block)
        elif block.language in ("toml", "json"):
            parse(block)
        else:
            self.run_python(block)

    def write(self, name: str, text: str) -> None:
        path = (self.folder / name).resolve()
        if not path.is_relative_to(self.folder.resolve()):
            raise PageError(f"file: {name} lies outside the folder of the page")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.ports.mine(text))

    def run_python(self, block: Block) -> None:
        if self._python is None:
            session = Path(__file__).with_name("session.py")
            # Older versions of matplotlib with a new pyparsing warn.
            quiet = ("-W", "ignore::DeprecationWarning:matplotlib._fontconfig_pattern",
                     "-W", "ignore::DeprecationWarning:matplotlib._mathtext")  # fmt: skip
            self._python = self._start(sys.executable, "-W", "error", *quiet, str(session))
        asked = {
            "source": self.ports.mine(block.text), "file": str(self.page),
            "line": block.line, "session": block.is_session,
        }  # fmt: skip
        answer: dict[str, str] = json.loads(self._ask(self._python, json.dumps(asked), block.line))
        if answer["wrong"]:
            raise PageError(f"line {block.line}:\n{self.ports.pages(answer['printed'] + answer['wrong'])}")

    def type(self, command: Command, block: Block) -> None:
        """Type a command, wait for it, and compare."""
        self._count += 1
        typed, printed = (self.notes / f"{self._count}.{end}" for end in ("sh", "out"))
        typed.write_text(self.ports.mine(command.text) + "\n")
        line = f'source "{typed}" >"{printed}" 2>&1 </dev/null; printf "%d\\n" $?'
        status = int(self._ask(self.shell, line, command.line))
        said = Said(command, block, lambda: self.ports.pages(printed.read_text(errors="replace")))
        if command.in_background:
            ports = HERE.findall(self.ports.mine(command.text))
            said.wait(lambda: all(map(is_listening, ports)))
        else:
            said.check(status)

    def _ask(self, process: subprocess.Popen[bytes], line: str, place: int) -> str:
        if (answer := ask(process, line, PATIENCE)) is not None:
            return answer
        end_group(process)
        complaints = (self.notes / "stderr").read_text(errors="replace")[-2_000:]
        raise PageError(
            f"line {place}: no answer: the process ended, or took more than {PATIENCE:.0f} s\n{complaints}"
        )


class Said:
    """What a command printed, beside what the page says."""

    def __init__(self, command: Command, block: Block, read: Callable[[], str]) -> None:
        self.command, self.block, self.read = command, block, read

    def check(self, status: int) -> None:
        if status != self.block.status:
            raise self.error(f"expected exit status {self.block.status}, got {status}")
        if not self.block.any_output and not matches(self.command.expected, self.read()):
            raise self.error("printed something else")

    def wait(self, is_ready: Callable[[], bool]) -> None:
        """Until a command in the background has begun."""
        deadline = time.monotonic() + PATIENCE / 4
        while time.monotonic() < deadline:
            printed = self.block.any_output or matches(self.command.expected, self.read(), begins=True)
            if printed and is_ready():
                return
            time.sleep(0.05)
        raise self.error("has not begun as the page says")

    def error(self, what: str) -> PageError:
        differences = "\n".join(difflib.ndiff(self.command.expected, self.read().splitlines()))
        return PageError(
            f"line {self.command.line}: {what}\n$ {self.command.text}\n{differences}\n"
            "(- the page, + printed; `...` stands for anything)"
        )


def parse(block: Block) -> None:
    try:
        (tomllib.loads if block.language == "toml" else json.loads)(block.text)
    except ValueError as error:
        raise PageError(f"line {block.line}: no {block.language}: {error}") from None


def environment(folder: Path) -> dict[str, str]:
    """A plain terminal; this environment's `reticent` and `python` come first, home is the page's folder."""
    kept = {
        name: os.environ[name] for name in ("PATH", "JAVA_HOME", "RETICENT_CHROMIUM") if name in os.environ
    }
    return {
        **kept,
        "PATH": f"{Path(sys.executable).parent}:{kept['PATH']}",
        "HOME": str(folder),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        "COLUMNS": "100", "LINES": "40", "TERM": "dumb", "NO_COLOR": "1",
        "LANG": "C.UTF-8", "TZ": "UTC", "MPLBACKEND": "agg",
        "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1",
        "REPOSITORY": str(Path(__file__).parents[3]),  # for hidden set-up that needs a part of the tests
    }  # fmt: skip


def is_listening(port: str) -> bool:
    with socket.socket() as caller:
        caller.settimeout(1)
        return caller.connect_ex(("127.0.0.1", int(port))) == 0


def ask(process: subprocess.Popen[bytes], line: str, seconds: float) -> str | None:
    """Hand over a line, and return the line that answers it if one comes in time."""
    assert process.stdin is not None
    assert process.stdout is not None
    answer, deadline = b"", time.monotonic() + seconds
    with suppress(BrokenPipeError):
        process.stdin.write(line.encode() + b"\n")
    while not answer.endswith(b"\n"):
        if not select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return None
        if not (more := process.stdout.read(65_536)):
            return None
        answer += more
    return answer.decode()


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that is left of what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
