"""Commands among others: `-` for standard input and output, `--quiet`, and the settings file of `serve`."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from reticent_collector.cli import output
from reticent_collector.cli.relay import relay
from reticent_collector.cli.root import reticent as command
from reticent_collector.cli.serve import serve

STORE = ("--store", "sqlite:///reticent.db")
VALUES = "individual,day,value\na,1,10\nb,1,20\n"
SMALL = ("--devices", 100, "--rounds", 1, "--repetitions", 1, "--seed", 1)


def test_a_plan_comes_from_standard_input(run: Any, folder: Path) -> None:
    text = (folder / "plan.toml").read_text()
    assert run("plan", "export", "-", answer=text).stdout == run("plan", "export", "plan.toml").stdout
    assert run("plan", "check", "-", answer="[plan]").exit_code == 3


def test_values_come_from_standard_input(run: Any, folder: Path) -> None:
    (folder / "values.csv").write_text(VALUES)
    arguments = ("simulate", "examples/saves.toml", *SMALL, "--json")
    from_file = json.loads(run(*arguments, "--values", "values.csv").stdout)
    done = run(*arguments, "--values", "-", answer=VALUES)
    assert json.loads(done.stdout) == from_file


def test_standard_input_is_read_once(run: Any, folder: Path) -> None:
    plan = (folder / "plan.toml").read_text()
    for arguments, text in (
        (("plan", "diff", "-", "-"), plan),
        (("simulate", "-", "--values", "-"), plan),
        (("ingest", "-", "--url", "https://a.example", "--key-file", "-"), "key"),
    ):
        done = run(*arguments, answer=text)
        assert done.exit_code == 2, arguments
        assert "give one - only" in done.output, arguments


def test_a_key_from_standard_input_opens_the_collector(run: Any, folder: Path) -> None:
    """It is taken as the file's would be: one word, and nothing listens where it is sent."""
    arguments = ("rounds", "--url", "http://127.0.0.1:1", "--key-file", "-")
    assert "one key in it, got 2 words" in run(*arguments, answer="a b").output
    done = run(*arguments, answer="reticent_reader_00000000_" + "A" * 43 + "\n")
    assert done.exit_code == 1
    assert "127.0.0.1:1" in done.output


def test_estimates_go_to_standard_output(run: Any, folder: Path) -> None:
    assert run("rounds", *STORE, "--seal").exit_code == 0
    assert run("export", "estimates.csv", *STORE).exit_code == 0
    done = run("export", "-", *STORE)
    assert done.stdout == (folder / "estimates.csv").read_text()
    assert not (folder / "-").exists()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("quiet", [False, True])
def test_progress_is_told_without_a_terminal_unless_quiet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    """Four calls 2.5 s apart: a line at the second; the fourth is the end."""
    now = [100.0]
    monkeypatch.setattr(output.time, "monotonic", lambda: now[0])
    with output.progress("Working", quiet) as tell:
        for done in range(1, 5):
            now[0] += 2.5
            tell(done, 4)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == ([] if quiet else ["Working: 50%, about 5 s left"])


def test_no_color(run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", Terminal())
    screen = output.console()
    screen.print("[red]x[/red]")
    assert "\x1b[3" not in sys.stdout.getvalue()  # type: ignore[attr-defined]


# The settings file of serve


def settings(*arguments: str, verb: click.Command = serve, **environment: str) -> dict[str, Any]:
    """What `serve`, or another verb, would run with."""
    before = dict(os.environ)
    os.environ.update(environment)
    try:
        with verb.make_context(str(verb.name), list(arguments)) as context:
            return context.params
    finally:
        os.environ.clear()
        os.environ.update(before)


WRITTEN: dict[str, tuple[str, str, object]] = {
    "workers": ("workers", "3", 3),
    "max-body": ("max_body", "4096", 4096),
    "read-timeout": ("read_timeout", "1.5", 1.5),
    "seal": ("seals", "false", False),
    "behind-proxy": ("behind_proxy", "true", True),
    "allow-origin": ("origins", '["https://a.example", "https://b.example"]', ("https://a.example", "https://b.example")),
    "listen": ("listen", '"127.0.0.1:9000"', ("127.0.0.1", 9000)),
    "store": ("store", '"sqlite:///other.db"', "sqlite:///other.db"),
    "tls-cert": ("tls_cert", '"plan.toml"', "plan.toml"),
}  # fmt: skip


def test_every_kind_of_option_can_be_in_the_file(folder: Path) -> None:
    lines = [f"{key} = {text}" for key, (_, text, _) in WRITTEN.items()]
    (folder / "serve.toml").write_text("\n".join(['plans = ["plan.toml", "plan-v2.toml"]', *lines]))
    found = settings("--config", "serve.toml")
    assert {name: found[name] for name, _, _ in WRITTEN.values()} == {
        name: value for name, _, value in WRITTEN.values()
    }
    assert found["plans"] == (Path("plan.toml"), Path("plan-v2.toml"))
    assert found["queue"] == 1_000_000  # what the file does not say
    assert settings(RETICENT_CONFIG="serve.toml") == found


def test_the_command_line_wins_then_the_environment_then_the_file(folder: Path) -> None:
    (folder / "serve.toml").write_text(
        'plans = ["plan.toml"]\nstore = "sqlite:///a.db"\nworkers = 2\nqueue = 5'
    )
    found = settings("examples/saves.toml", "--config", "serve.toml", "--workers", "4",
                     RETICENT_WORKERS="3", RETICENT_QUEUE="6")  # fmt: skip
    assert (found["workers"], found["queue"], found["store"]) == (4, 6, "sqlite:///a.db")
    assert found["plans"] == (Path("examples/saves.toml"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('lisen = "127.0.0.1:0"', "lisen: there is no such setting.\n  Hint: did you mean listen?"),
        ('tls_cert = "x"', "Hint: did you mean tls-cert?"),
        ('config = "x"', "config: there is no such setting"),
        ("workers = true", "workers: expected a string or a number"),
        ('plans = "plan.toml"', "plans: expected a list of strings"),
        ("allow-origin = [1]", "allow-origin: expected a list of strings"),
        ('seal = "no"', "seal: expected true or false"),
        ("[serve]\nqueue = 1", "serve: there is no such setting"),
        ("queue = ", "expected TOML"),
        ('plans = ["plan.toml"]\nworkers = 0', "Error: serve.toml: workers: 0 is not in the range"),
        ('plans = ["plan.toml"]\nrate = 0.5', "Error: serve.toml: rate: expected 0 or at least 1 report"),
        ('plans = ["nope.toml"]', "Error: serve.toml: plans: Path 'nope.toml' does not exist"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(run: Any, folder: Path, text: str, message: str) -> None:
    (folder / "serve.toml").write_text(text)
    done = run("serve", "--config", "serve.toml", *STORE, "--listen", "127.0.0.1:0")
    assert done.exit_code in (1, 2)
    assert message in done.output


def test_each_verb_that_shows_progress_can_be_quiet() -> None:
    group = command
    for name in ("audit", "count", "ingest", "simulate"):
        verb = group.get_command(click.Context(group), name)
        assert verb is not None
        assert any("--quiet" in option.opts for option in verb.params if isinstance(option, click.Option))


def test_every_option_of_a_relay_has_the_variable_that_help_promises(folder: Path) -> None:
    key = "reticent_ingest_00000000_secret"
    (folder / "key").write_text(key)
    set_ = {"TO": "https://a.example", "KEY_FILE": "key", "ALLOW_ORIGIN": "https://b.example"}
    given = settings(
        "plan.toml", verb=relay, **{f"RETICENT_RELAY_{name}": text for name, text in set_.items()}
    )
    assert (given["to"], given["key"], given["origins"]) == ("https://a.example", key, ("https://b.example",))


def test_a_file_that_a_variable_names_comes_before_the_settings_file(folder: Path) -> None:
    (folder / "serve.toml").write_text('plans = ["plan.toml"]\nstore = "sqlite:///a.db"')
    (folder / "address").write_text("sqlite:///b.db\n")
    of_file = {"RETICENT_STORE_FILE": "address"}
    assert settings("--config", "serve.toml", **of_file)["store"] == "sqlite:///b.db"
    given = settings("--config", "serve.toml", RETICENT_STORE="sqlite:///c.db", **of_file)
    assert given["store"] == "sqlite:///c.db"
