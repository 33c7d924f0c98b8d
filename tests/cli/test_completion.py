"""Completion in a real shell: the script that is printed, loaded, and asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reticent.cli.completion import SHELLS

BASH = """
eval "$("{program}" completion bash)"
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
compopt() {{ echo "compopt $*"; }}
_reticent_completion "{program}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The `reticent` command, wherever it is installed."""
    script = tmp_path / "reticent"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reticent "$@"\n')
    script.chmod(0o755)
    return script


def bash(program: Path, *words: str) -> list[str]:
    """What bash offers for the last word; words are split at colons as readline does."""
    quoted = " ".join(f"'{word}'" for word in ("reticent", *words))
    text = BASH.format(words=quoted, program=program)
    done = subprocess.run(
        [shutil.which("bash") or "bash", "--norc", "-c", text],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_verbs_stores_and_metrics(program: Path, folder: Path) -> None:
    assert bash(program, "est") == ["estimate"]
    assert bash(program, "estimate", "--store", "sqli") == ["sqlite:///reticent.db", "sqlite:///"]
    assert bash(program, "estimate", "--store", "sqlite", ":", "///re") == ["///reticent.db"]
    store = ("--store", "sqlite", ":", "///reticent.db")
    assert bash(program, "estimate", *store, "--metric", "editor") == ["editor_hours", "editor_seconds"]


def test_a_shell_is_offered_what_there_is(run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the scripts of all shells are told, asked for as zsh does: one word is one word."""
    from reticent.cli import COMPLETE
    from reticent.cli.root import reticent

    def offered(*words: str) -> list[str]:
        shell = SHELLS["zsh"](reticent, {}, "reticent", COMPLETE)
        return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]

    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert offered("plan", "") == ["check", "diff"]
    assert offered("plan", "check", "plan-") == ["plan-v1.toml", "plan-v2.toml"]
    assert offered("plan", "check", "examples/pl") == ["examples/plan.toml"]
    assert offered("plan", "check", "exam") == ["exam"]  # a folder: for the shell to complete
    assert offered("keys", "create", "--role", "") == ["ingest", "reader", "admin"]
    assert offered("rounds", "--store", "lake") == ["lake:///reticent-lake", "lake:///", "lake+s3://"]
    assert offered("rounds", "--store", "sqlite:///examples/") == []
    stored = ("--store", "sqlite:///reticent.db")
    assert offered("estimate", *stored, "--plan", "") == ["app-usage"]
    assert offered("estimate", *stored, "--by", "") == ["os"]
    assert "os:linux" in offered("export", "x.csv", *stored, "--segment", "os:")
    assert offered("estimate", "--counts", "counts.parquet", "--metric", "br") == ["browser_seconds"]
    assert offered("estimate", "--store", "sqlite:///nope.db", "--metric", "") == []
    assert offered("estimate", "--store", "sqlite:///plan.toml", "--metric", "") == []
    assert offered("estimate", "--metric", "") == []
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("shell", list(SHELLS))
def test_each_script_is_for_its_shell(run: Any, shell: str) -> None:
    script = run("completion", shell).output
    assert f"_RETICENT_COMPLETE={shell}_complete" in script
    assert json.loads(run("completion", shell, "--json").output)["script"].strip() == script.strip()
    installed = shutil.which(shell)
    if installed is None:
        pytest.skip(f"{shell} is not installed here, so its script is not parsed")
    subprocess.run([installed, "-n"], input=script, text=True, check=True)
