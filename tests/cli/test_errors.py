"""What goes wrong is said in a line or two, with what to do and the exit code that is documented."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reticent_collector.cli.root import reticent as command

FREE = ("--listen", "127.0.0.1:0")
STORE = ("--store", "sqlite:///reticent.db")
SMALL = ("--population", "editor", "--devices", 10, "--rounds", 1, "--repetitions", 1)

FAILURES: list[tuple[tuple[object, ...], int, str]] = [
    # no such file
    (("plan", "check", "nope.toml"), 2, "'nope.toml' does not exist"),
    (("plan", "diff", "plan.toml", "nope.toml"), 2, "'nope.toml' does not exist"),
    (("audit", "nope.toml"), 2, "'nope.toml' does not exist"),
    (("simulate", "nope.toml"), 2, "'nope.toml' does not exist"),
    (("agent", "nope.toml", "--state", "x.db"), 2, "'nope.toml' does not exist"),
    (("simulate", "plan.toml", "--values", "nope.csv"), 1, "nope.csv: No such file"),
    (("relay", "nope.toml", "--to", "https://a.example"), 2, "'nope.toml' does not exist"),
    (("relay", "plan.toml", "--to", "http://a.example"), 2, "--to: expected an https:// address"),
    (("relay", "plan.toml", "--to", "https://a.example", "--listen", "0.0.0.0:0"), 1, "--client-keys FILE"),
    (("serve", "nope.toml", *STORE), 2, "'nope.toml' does not exist"),
    (("ingest", "nope.ndjson", *STORE), 2, "'nope.ndjson' does not exist"),
    (("device", "status", "nope.db"), 2, "there is no such file"),
    (("device", "consent", "nope.db", "granted"), 2, "--plan PLAN makes it here"),
    (("rounds", "--store", "sqlite:///nope.db"), 1, "reticent serve and reticent keys create make a new one"),
    (("estimate", "--store", "lake:///nope"), 1, "there is no such store"),
    (("count", "nope"), 1, "there is no lake"),
    # a file of another kind
    (("plan", "check", "picture.png"), 3, "is not UTF-8 text"),
    (("plan", "check", "plan.toml", "--previous", "picture.png"), 1, "is not UTF-8 text"),
    (("plan", "diff", "picture.png", "plan.toml"), 1, "is not UTF-8 text"),
    (("audit", "picture.png"), 1, "is not UTF-8 text"),
    (("simulate", "picture.png", *SMALL), 1, "is not UTF-8 text"),
    (("simulate", "plan.toml", "--values", "picture.png"), 1, "expected CSV in UTF-8"),
    (("serve", "picture.png", *STORE, *FREE), 1, "is not UTF-8 text"),
    (("serve", "plan.toml", "--store", "sqlite:///plan.toml", *FREE), 1, "not a database"),
    (("rounds", "--store", "sqlite:///picture.png"), 1, "not a database"),
    (("rounds", "--store", "sqlite:///telemetry.db"), 1, "is not a database of reticent"),
    (("keys", "create", "--role", "reader", "--store", "sqlite:///plan.toml"), 1, "not a database"),
    (("device", "receipt", "plan.toml"), 1, "another program's file; it was not changed.\n  Hint: give the state file"),
    (("device", "pause", "reticent.db"), 1, "another program's file"),
    (("count", "examples"), 1, "expected a lake"),
    (("estimate", "--store", "lake:///examples"), 1, "this folder is not a lake: it has no lake.json"),
    (("count", "reticent.db"), 1, "reticent rounds --store URL"),
    (("estimate", *STORE, "--since", "2026-11-05", "--until", "2026-11-01"), 1, "a time after --since"),
    (("estimate", *STORE, "--since", "2026-11-05", "--until", "2026-11-05"), 1, "a time after --since"),
    (("count", "sqlite:///reticent.db"), 1, "sqlite:///reticent.db: expected a lake"),
    (("count", "postgresql://u:sekret@127.0.0.1:1/x"), 1, "127.0.0.1:1/x: expected a lake"),
    (("plan", "check", "examples"), 2, "is a directory"),
    (("rounds", "--url", "https://a.example", "--key-file", "picture.png"), 2, "got one that is not text"),
    (("agent", "plan.toml", "--state", "x.db", "--key-file", "picture.png"), 2, "got one that is not text"),
    (("simulate", "plan.toml", "--values", "plan-v1.toml"), 1, "Hint: name the columns in the first line"),
    (("design", "--metric", "a,mean,values=plan-v1.toml", "--devices", 9), 1, "a row per individual"),
    # addresses
    (("rounds", "--store", "mysql://x"), 1, "expected sqlite:///path"),
    (("serve", "plan.toml", "--store", "reticent.db", *FREE), 1, "Hint: --store sqlite:///reticent.db"),
    (("rounds", "--store", "sqlite://reticent.db"), 1, "Hint: --store sqlite:///reticent.db"),
    (("rounds", "--store", "sqlite://"), 1, "expected sqlite:///path"),
    (("rounds", "--store", "reticent-lake"), 1, "Hint: --store lake:///reticent-lake"),
    (("keys", "list", "--store", "/var/lib/reticent.db"), 1, "Hint: --store sqlite:////var/lib/reticent.db"),
    (("rounds", "--store", "postgresql://u:sekret@127.0.0.1:1/x"), 1, "postgresql://u@127.0.0.1:1/x: cannot"),
    (("serve", "plan.toml", *STORE, "--listen", "nowhere"), 2, "HOST:PORT, for example 127.0.0.1:8000"),
    (("serve", "plan.toml", *STORE, "--listen", "0.0.0.0:{port}"), 1, "Cannot listen on 0.0.0.0:{port}"),
    (("demo", "--once", "--port", "{port}"), 1, "--port; 0 takes any that is free"),
    (("serve", "plan.toml", "--store", "sqlite:///new.db", "--listen", "0.0.0.0:0"), 1, "reticent keys create"),
    (("serve", "plan.toml", "--store", "sqlite:///new.db", "--listen", "[::]:0"), 1, "reticent keys create"),
    # names
    (("estimate", *STORE, "--metric", "editor_second"), 1, "Hint: --metric editor_seconds?"),
    (("export", "x.csv", *STORE, "--metric", "zzz"), 1, "expected one of editor_seconds, browser_seconds"),
    (("estimate", *STORE, "--plan", "app-use"), 1, "Hint: --plan app-usage?"),
    (("rounds", *STORE, "--plan", "app-use"), 1, "Hint: --plan app-usage?"),
    (("estimate", *STORE, "--by", "oss"), 1, "Hint: --by os?"),
    (("estimate", *STORE, "--segment", "oss:linux"), 1, "Hint: --segment os?"),
    (("estimate", *STORE, "--segment", "os:linus"), 1, "segment os: expected one of"),
    (("estimate", *STORE, "--segment", "linux"), 2, "expected NAME:TAG"),
    (("estimate", *STORE, "--segment", "os:linux", "--segment", "os:macos"), 2, "expected one tag of each segment"),
    (("agent", "plan.toml", "--state", "x.db", "--port", 0, "--segment", "oss:linux"), 1, "Hint: --segment os?"),
    (("count", "reticent-lake", "--plan", "app-use"), 1, "Hint: --plan app-usage?"),
    (("simulate", "plan.toml", "--population", "edtor"), 1, "expected one of age-in-days"),
    (("simulate", "plan.toml", "--values", "editor=x.csv"), 2, "no metric editor; there are editor_seconds"),
    (("keys", "revoke", "00000000", *STORE), 1, "reticent keys list shows them"),
    (("estmate",), 2, "No such command 'estmate'"),
    (("plan", "chek"), 2, "No such command 'chek'"),
    (("completion", "tcsh"), 2, "'tcsh' is not one of"),
    # what cannot be written
    (("simulate", "plan.toml", *SMALL, "--out", "picture.png/x"), 1, "picture.png"),
    (("design", "--metric", "a,flag", "--devices", 1000, "--out", "plan.toml/x"), 1, "plan.toml"),
    (("demo", "--keep", "plan.toml/x", "--port", 0), 1, "plan.toml"),
    (("export", "plan.toml/x.csv", *STORE), 1, "plan.toml/x.csv: Not a directory"),
    (("export", "nope/x.parquet", *STORE), 1, "nope/x.parquet"),
    (("export", "x.xlsx", *STORE), 2, "ends in .csv or .parquet"),
    (("store", "backup", "plan.toml", *STORE), 1, "a backup never overwrites"),
    (("store", "backup", "x.db", "--store", "lake:///reticent-lake"), 1, "can be copied"),
    (("sql", "plan.toml", "--table", "a; DROP TABLE a"), 1, "table: expected a table, as it stands after FROM"),
    (("count", "reticent-lake", "--seal", "--skip-bad"), 2, "reticent store repair first"),
    (("count", "reticent-lake", "--seal", "--round", 900_000), 1, "expected one whose grace is over, got 900000"),
    # wrong usage
    (("estimate",), 2, "Give --store URL or --url URL"),
    (("serve", "plan.toml"), 2, "Missing option '--store'. For example: --store sqlite:///reticent.db"),
    (("rounds",), 2, "Give --store URL or --url URL."),
    (("rounds", *STORE, "--url", "https://a.example"), 2, "Give --store URL or --url URL, not both."),
    (("design", "--metric", "a,mean", "--devices", 10), 2, "a: range: expected the top of its range"),
    (("design", "--metric", "a,flag", "--devices", 0), 2, "devices: expected 1 to"),
    (("simulate", "plan.toml"), 2, "Give either --values FILE, or --population NAME"),
    (("audit", "plan.toml", "--client", ""), 2, "expected a program and its arguments"),
    (("audit", "plan.toml", "--client", "no-such-program"), 1, "cannot be started"),
    (("serve", "plan.toml", *STORE, *FREE, "--tls-cert", "plan.toml"), 2, "go together"),
    (("serve", "plan.toml", *STORE, *FREE, "--tls-cert", "plan.toml", "--tls-key", "plan.toml"), 1, "in PEM"),
]  # fmt: skip


@pytest.fixture
def port() -> Iterator[int]:
    """A port that is taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield int(taken.getsockname()[1])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    FAILURES,
    ids=lambda part: " ".join(map(str, part)) if isinstance(part, tuple) else None,
)
def test_a_failure_is_a_line_or_two_and_an_exit_code(
    run: Any, folder: Path, port: int, arguments: tuple[object, ...], code: int, message: str
) -> None:
    done = run(*(str(each).replace("{port}", str(port)) for each in arguments))
    assert done.exit_code == code, done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exc_info
    said = done.output if code == 3 else done.stderr  # a check's findings are its answer
    assert message.replace("{port}", str(port)) in said
    assert "sekret" not in done.output
    if code == 1:
        assert said.startswith("Error: ")
        assert len(said.splitlines()) <= 2


def test_a_bucket_needs_its_package(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    done = run("rounds", "--store", "lake+s3://bucket/x")
    hint = "Error: lake+s3://bucket/x: s3fs is not installed.\n  Hint: pip install s3fs\n"
    assert (done.exit_code, done.stderr) == (1, hint)


def test_every_verb_was_made_to_fail() -> None:
    assert {str(arguments[0]) for arguments, _, _ in FAILURES} >= set(command.commands) - {"doctor"}


def test_nothing_to_show_is_said(run: Any, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/reticent.db"
    assert run("keys", "create", "--store", url, "--role", "reader").exit_code == 0
    key = run("keys", "list", "--store", url, "--json").output
    assert run("rounds", "--store", url).output.startswith("No rounds yet: no reports have arrived.\n")
    done = run("estimate", "--store", url)
    assert (
        done.exit_code,
        "no plan is registered here yet.\n  Hint: reticent serve PLAN" in done.output,
    ) == (1, True), key


def test_a_store_that_was_never_used_has_no_estimates(run: Any, folder: Path) -> None:
    from reticent.plan import Plan
    from reticent_collector.stores import open_store

    store = open_store("sqlite:///empty.db")
    store.register(Plan.load("plan.toml"))
    store.close()
    done = run("estimate", "--store", "sqlite:///empty.db")
    assert done.exit_code == 0
    assert done.output.startswith(
        "No estimates: there are no reports for this selection.\nDevices send reports"
    )
    assert run("keys", "list", "--store", "sqlite:///empty.db").output.startswith("No keys yet")


def test_brackets_and_colons_are_text(run: Any, folder: Path) -> None:
    """Labels and units are printed as they stand: they are no markup of the terminal's library."""
    run("keys", "create", *STORE, "--role", "reader", "--label", "[/x] [prod] :smile:")
    assert "  [/x] [prod] :smile:  " in run("keys", "list", *STORE).output
    (folder / "odd.toml").write_text((folder / "plan.toml").read_text().replace('"second"', '"[/s]"'))
    assert " [/s]  " in run("plan", "check", "odd.toml").output


def test_a_variable_that_names_no_file_is_named(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETICENT_STORE_FILE", "nope")
    done = run("rounds")
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: RETICENT_STORE_FILE: nope: No such file or directory.\n",
    )
    monkeypatch.setenv("RETICENT_STORE_FILE", sys.executable)
    done = run("rounds")
    assert done.stderr == f"Error: RETICENT_STORE_FILE: {sys.executable}: it is not a text file.\n"


def test_a_collector_that_does_not_start_makes_no_store(run: Any, folder: Path) -> None:
    for wrong in (("picture.png",), ("plan.toml", "--public", "app-use")):
        done = run("serve", *wrong, "--store", "sqlite:///new.db", *FREE)
        assert (done.exit_code, (folder / "new.db").exists()) == (1, False)


def test_a_folder_without_the_right_to_write(run: Any, folder: Path) -> None:
    (folder / "theirs").mkdir(0o500)
    if os.access(folder / "theirs", os.W_OK):
        pytest.skip("root may write anywhere")
    done = run("export", "theirs/x.csv", *STORE)
    assert (done.exit_code, done.stderr) == (1, "Error: theirs/x.csv: Permission denied.\n")
    done = run("keys", "create", "--role", "reader", "--store", "sqlite:///theirs/x.db")
    assert (done.exit_code, done.stderr) == (
        1,
        "Error: sqlite:///theirs/x.db: cannot be opened: Permission denied\n"
        "  Hint: this user must be able to write the file and its folder\n",
    )


WITHOUT = """
import sys
for name in {names!r}:
    sys.modules[name] = None
sys.argv = ["reticent", *{arguments!r}]
from reticent.cli import main
main()
"""


@pytest.mark.parametrize(
    ("names", "arguments", "code", "message"),
    [
        (["numpy", "scipy"], ["plan", "check", "plan.toml"], 1, "pip install 'reticent-collector'"),
        (["numpy", "scipy"], ["device", "status", "telemetry.db"], 0, ""),
        (
            ["httptools"],
            ["serve", "plan.toml", "--store", "sqlite:///x.db", *FREE],
            1,
            "pip install 'reticent-collector'",
        ),
        (["click"], ["--help"], 0, ""),
    ],
)
def test_a_package_that_is_missing_is_named(
    folder: Path, names: list[str], arguments: list[str], code: int, message: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(names=names, arguments=arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


HEARING = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from reticent.cli import main
main()
"""


def started(*arguments: str) -> subprocess.Popen[str]:
    """A command as a terminal starts it: a job in the background would be deaf to Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-c", HEARING, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def interrupted(process: subprocess.Popen[str]) -> None:
    """Ctrl-C, for all processes of a command; it has to end, quietly, with 130."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        out, error = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert (process.returncode, error.splitlines()[-1:], out) == (130, ["Stopped."], "")
    assert "Traceback" not in error


def test_ctrl_c_ends_with_130_and_no_traceback(folder: Path) -> None:
    work = ("--population", "editor", "--individuals", "1000000", "--repetitions", "1000", "--out", "begun")
    process = started("simulate", "plan.toml", *work)
    deadline = time.monotonic() + 60
    while not Path("begun").exists() and time.monotonic() < deadline:  # it is made when the work begins
        time.sleep(0.02)
    interrupted(process)


UNRESPONSIVE = """
import pathlib, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.stdin.readline()
print("true", flush=True)
sys.stdin.readline()
print("true", flush=True)
pathlib.Path("begun").touch()
sys.stdin.read()
pathlib.Path("ended").touch()
"""


def test_ctrl_c_ends_an_audit_and_its_client(folder: Path) -> None:
    """Also a client that ignores Ctrl-C and has stopped answering: the end of its input ends it."""
    Path("client.py").write_text(UNRESPONSIVE)
    process = started("audit", "plan.toml", "--client", f"{sys.executable} client.py")
    deadline = time.monotonic() + 60
    while not Path("begun").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    interrupted(process)
    assert Path("ended").exists()


def test_a_reader_that_has_seen_enough_ends_it_quietly(folder: Path) -> None:
    """As `reticent … | head -1` does: the pipe is closed before anything is written to it."""
    for arguments in (["plan", "check", "plan.toml"], ["completion", "zsh"]):
        process = started(*arguments)
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, error = process.communicate(timeout=60)
        assert error == ""
        assert process.returncode in (0, 1)
