"""What runs the pages can tell a page that is right from one that is not."""

from __future__ import annotations

import os
import socket
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from pagetest import running
from pagetest.page import PageError
from pagetest.running import Ports, run_page

Do = Callable[..., int]

SERVER = """
<!-- file: server.py -->
```python
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1].split(":")[1]))) as server:
    print("listening on", sys.argv[1])
    while True:
        with server.accept()[0] as caller:
            caller.sendall(f"hello from {sys.argv[1]}".encode())
```

<!-- file: client.py -->
```python
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1].split(":")[1]))) as server:
    print(server.recv(100).decode())
```
"""


@pytest.fixture
def do(tmp_path: Path) -> Do:
    """Write a page and do what it says."""
    examples = tmp_path / "repository" / "examples"
    examples.mkdir(parents=True)
    (examples / "plan.toml").write_text("[plan]\n")

    def written(text: str, *, soak: bool = False) -> int:
        page = tmp_path / "repository" / "page.md"
        page.write_text(textwrap.dedent(text))
        folder = tmp_path / "page"
        folder.mkdir()
        return run_page(page, folder, examples, soak=soak)

    return written


def block(language: str, *lines: str, before: str = "") -> str:
    return "\n".join([before, f"```{language}", *lines, "```", ""])


RIGHT = {
    "what is printed": block("console", "$ echo one; echo two >&2", "one", "two"),
    "two commands": block("console", "$ echo one", "one", "", "$ echo two", "two"),
    "part of a line": block("console", "$ echo took 12 ms", "took ... ms"),
    "any lines": block("console", "$ seq 9", "1", "...", "9"),
    "a here document": block("console", "$ cat <<END", "> one", ">", "> END", "one"),
    "a variable that lasts": block("console", "$ name=me") + block("console", "$ echo $name", "me"),
    "another status": block(
        "console", "$ exit_with() { return 3; }; exit_with", before="<!-- test: exits 3 -->"
    ),
    "a file": block("toml", "[plan]", before="<!-- file: new/plan.toml -->")
    + block("console", "$ cat new/plan.toml", "[plan]"),
    "unseen commands": "<!-- setup\n$ echo one > found\n$ echo noise\n-->\n"
    + block("console", "$ cat found", "one"),
    "a session": block("python", "value = 6") + block("python", ">>> value + 1", "7", ">>> 'a b'", "'a...b'"),
    "skipped": block("console", "$ false", before="<!-- test: skip, needs a bucket -->"),
    "long": block("console", "$ false", before="<!-- test: soak -->"),
    "in a list": "1. First\n\n   ```console\n   $ echo one\n   one\n   ```\n",
}

WRONG = {
    "other output": (
        block("console", "$ echo one", "two"),
        r"line 3: printed something else\n.*\n- two\n\+ one",
    ),
    "output not told of": (block("console", "$ echo one"), "printed something else"),
    "output that never came": (block("console", "$ true", "one"), "printed something else"),
    "a failing command": (block("console", "$ false"), "line 3: expected exit status 0, got 1"),
    "a failing first command": (block("console", "$ false", "$ true"), "expected exit status 0, got 1"),
    "success against its word": (
        block("console", "$ true", before="<!-- test: exits 3 -->"),
        "status 3, got 0",
    ),
    "an end of the shell": (block("console", "$ exit 0"), "the process ended"),
    "a program that fails": (
        block("python", "", "1 / 0"),
        r'page.md", line 4, in <module>(.|\n)*ZeroDivisionError',
    ),
    "a program that warns": (block("python", "import warnings", "warnings.warn('old')"), "UserWarning: old"),
    "a session that differs": (block("python", ">>> 1 + 1", "3"), "1 \\+ 1\n.*\n +- 3\n +\\+ 2"),
    "wrong TOML": (block("toml", "[plan"), "no toml"),
    "an unknown language": (block("sh", "$ true"), "expected a block of console, python, .*, got sh"),
    "skipped without a reason": (block("console", "$ false", before="<!-- test: skip -->"), "wants a reason"),
    "a steer of nothing": ("<!-- test: soak -->\n\nText.\n" + block("console", "$ true"), "none follows it"),
    "a file elsewhere": (block("toml", before="<!-- file: ../plan.toml -->"), "outside the folder"),
    "a server that does not start": (
        block("console", "$ sleep 600 &", "ready"),
        "has not begun as the page says",
    ),
}


@pytest.mark.parametrize("page", RIGHT.values(), ids=RIGHT)
def test_a_page_that_is_right_passes(page: str, do: Do) -> None:
    do(page)


@pytest.mark.parametrize(("page", "complaint"), WRONG.values(), ids=WRONG)
def test_a_page_that_is_wrong_fails(
    page: str, complaint: str, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PATIENCE", 4.0)
    with pytest.raises(PageError, match=complaint):
        do(page)


def test_a_command_that_hangs_is_ended(do: Do, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "PATIENCE", 0.5)
    with pytest.raises(PageError, match="took more than"):
        do(block("console", "$ sleep 600"))


def test_long_blocks_run_when_asked_for(do: Do) -> None:
    with pytest.raises(PageError, match="expected exit status 0, got 1"):
        do(RIGHT["long"], soak=True)


def test_a_server_runs_on_another_port_until_the_page_ends(do: Do, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        place = f"127.0.0.1:{busy.getsockname()[1]}"  # so a server that starts is somewhere else
        served = block("console", f"$ python server.py {place} &", f"listening on {place}", "$ jobs -p > pid")
        asked = block("console", f"$ python client.py {place}", f"hello from {place}")
        assert do(SERVER + served + asked) == 4
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "page" / "pid").read_text()), 0)


def test_a_server_that_ends_well_gets_the_time_to(do: Do, tmp_path: Path) -> None:
    do(
        block(
            "console",
            "$ (trap 'echo ended > end; exit' TERM; echo up; while true; do sleep 0.05; done) &",
            "up",
        )
    )
    assert (tmp_path / "page" / "end").read_text() == "ended\n"


def test_ports_of_this_machine_are_swapped_and_no_others() -> None:
    ports = Ports("http://127.0.0.1:8000 and http://example.org:9000 at 10:3000")
    free = ports.there["8000"]
    assert set(ports.there) == {"8000"}
    assert len(free) == 4
    assert ports.mine("[::1]:8000/x example.org:9000 :80001") == f"[::1]:{free}/x example.org:9000 :80001"
    assert ports.pages(f"[::1]:{free}/x example.org:9000") == "[::1]:8000/x example.org:9000"
