"""What runs the pages can tell a page that is right from one that is not."""

from __future__ import annotations

import os
import socket
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from pagetest import running
from pagetest.page import PageError, commands, matches, read_page
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
    "nothing": block("console", "$ true"),
    "two commands": block("console", "$ echo one", "one", "", "$ echo two", "two"),
    "part of a line": block("console", "$ echo took 12 ms", "took ... ms"),
    "any lines": block("console", "$ seq 9", "1", "...", "9"),
    "no lines": block("console", "$ seq 2", "1", "...", "2"),
    "blanks that nobody sees": block("console", "$ echo 'one  '; echo", "one"),
    "a command over two lines": block("console", "$ echo one \\", "    two", "one two"),
    "a here document": block("console", "$ cat <<END", "> one", ">", "> END", "one"),
    "a variable that lasts": block("console", "$ name=me") + block("console", "$ echo $name", "me"),
    "a folder that lasts": block("console", "$ mkdir a && cd a") + block("console", "$ basename $PWD", "a"),
    "examples beside it": block("console", "$ cat examples/plan.toml", "[plan]"),
    "this Python": block("console", "$ python -c 'import sys; print(sys.prefix)'", sys.prefix),
    "a plain terminal": block("console", '$ echo "$COLUMNS $TERM $NO_COLOR"', "100 dumb 1"),
    "another status": block(
        "console", "$ exit_with() { return 3; }; exit_with", before="<!-- test: exits 3 -->"
    ),
    "any output": block("console", "$ date", before="<!-- test: ignore output, it is a clock -->"),
    "a file": block("toml", "[plan]", before="<!-- file: new/plan.toml -->")
    + block("console", "$ cat new/plan.toml", "[plan]"),
    "unseen commands": "<!-- setup\n$ echo one > found\n$ echo noise\n-->\n"
    + block("console", "$ cat found", "one"),
    "a program": block("python", "value = 6") + block("python", "assert value == 6"),
    "a session": block("python", "value = 6") + block("python", ">>> value + 1", "7", ">>> 'a b'", "'a...b'"),
    "a program in the folder": block("python", "from pathlib import Path", "Path('f').write_text('one')")
    + block("console", "$ cat f", "one"),
    "a program that prints": block("python", "import os", "print('hello')", "_ = os.system('echo hello')"),
    "TOML and JSON": block("toml", "[plan]") + block("json", '{"plan": 1}'),
    "skipped": block("console", "$ false", before="<!-- test: skip, needs a bucket -->"),
    "long": block("console", "$ false", before="<!-- test: soak -->"),
    "two steers": block(
        "console", "$ (date; exit 3)", before="<!-- test: exits 3 -->\n<!-- test: ignore output, clock -->"
    ),
    "in a list": "1. First\n\n   ```console\n   $ echo one\n   one\n   ```\n",
    "other comments": block("console", "$ true", before="<!-- a remark -->"),
}

WRONG = {
    "other output": (
        block("console", "$ echo one", "two"),
        r"line 3: printed something else\n.*\n- two\n\+ one",
    ),
    "output not told of": (block("console", "$ echo one"), "printed something else"),
    "output that never came": (block("console", "$ true", "one"), "printed something else"),
    "a line too many": (block("console", "$ seq 2", "1"), "printed something else"),
    "complaints not told of": (block("console", "$ echo oh >&2"), "printed something else"),
    "a failing command": (block("console", "$ false"), "line 3: expected exit status 0, got 1"),
    "a failing first command": (block("console", "$ false", "$ true"), "expected exit status 0, got 1"),
    "not the status": (
        block("console", "$ false", before="<!-- test: exits 3 -->"),
        "expected exit status 3, got 1",
    ),
    "success against its word": (
        block("console", "$ true", before="<!-- test: exits 3 -->"),
        "status 3, got 0",
    ),
    "any output, but it fails": (
        block("console", "$ false", before="<!-- test: ignore output, a clock -->"),
        "expected exit status 0, got 1",
    ),
    "no such command": (block("console", "$ reticentt"), "got 127"),
    "not a command": (block("console", "$ ("), "got 2|got 1"),
    "an end of the shell": (block("console", "$ exit 0"), "the process ended"),
    "unseen commands that fail": ("<!-- setup\n$ false\n-->\n", "expected exit status 0, got 1"),
    "a program that fails": (
        block("python", "", "1 / 0"),
        r'page.md", line 4, in <module>(.|\n)*ZeroDivisionError',
    ),
    "a program that warns": (block("python", "import warnings", "warnings.warn('old')"), "UserWarning: old"),
    "a program that leaves": (block("python", "raise SystemExit(0)"), "SystemExit"),
    "a program that dies": (block("python", "import os", "os._exit(0)"), "the process ended"),
    "a session that differs": (block("python", ">>> 1 + 1", "3"), "1 \\+ 1\n.*\n +- 3\n +\\+ 2"),
    "wrong TOML": (block("toml", "[plan"), "no toml"),
    "wrong JSON": (block("json", "{"), "no json"),
    "an unknown language": (block("sh", "$ true"), "expected a block of console, python, .*, got sh"),
    "no language": (block("", "$ true"), "got one without a language"),
    "an indented block": ("Do this:\n\n    true\n", "line 3: an indented block"),
    "text before a command": (block("console", "one", "$ true"), "line 3: expected a command after"),
    "no command": (block("console"), "without a command"),
    "skipped without a reason": (block("console", "$ false", before="<!-- test: skip -->"), "wants a reason"),
    "ignored without a reason": (
        block("console", "$ date", before="<!-- test: ignore output -->"),
        "wants a reason",
    ),
    "exits without a status": (block("console", "$ date", before="<!-- test: exits -->"), "wants a status"),
    "exits with a reason": (block("console", "$ date", before="<!-- test: exits, so -->"), "wants a status"),
    "an unknown steer": (block("console", "$ date", before="<!-- test: maybe -->"), "is none of skip, soak"),
    "a steer of nothing": ("<!-- test: soak -->\n\nText.\n" + block("console", "$ true"), "none follows it"),
    "a steer at the end": ("<!-- test: soak -->\n", "none follows it"),
    "two commands and a status": (
        block("console", "$ true", "$ false", before="<!-- test: exits 1 -->"),
        "`exits` is for a console block of one",
    ),
    "a file without a name": (block("toml", before="<!-- file: -->"), "wants the name of a file"),
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


def test_lines_are_those_of_the_page() -> None:
    [found] = read_page("# Title\n\nText.\n\n```console\n$ one\n\n$ two\n```\n")
    assert [(command.text, command.line) for command in commands(found)] == [("one", 6), ("two", 8)]


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("a...c", "abc\n"),
        ("a...c", "ac\n"),
        ("...\nb\n...", "b\n"),
        ("...", ""),
        ("a", "a  \n\n\n"),
        ("a.c", "a.c"),
    ],
)
def test_what_counts_as_the_same(expected: str, printed: str) -> None:
    assert matches(tuple(expected.split("\n")), printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [("a...c", "a\nc\n"), ("a.c", "abc\n"), ("...\nb", "a\n"), ("a", "A\n"), ("a", " a\n"), ("a", "\na\n")],
)
def test_what_does_not(expected: str, printed: str) -> None:
    assert not matches(tuple(expected.split("\n")), printed)
