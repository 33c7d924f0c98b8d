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

BASH = """
eval "$("{program}" completion bash)"
compopt() {{ :; }}
for words in "est" "plan " "completion f"; do
    IFS=' ' read -ra COMP_WORDS <<< "reticent $words"
    [[ "$words" = *' ' ]] && COMP_WORDS+=("")
    COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
    _reticent_completion "{program}"
    echo "${{COMPREPLY[@]}}"
    COMPREPLY=()
done
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes(tmp_path: Path) -> None:
    program = tmp_path / "reticent"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reticent "$@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        [shutil.which("bash") or "bash", "--norc", "-c", BASH.format(program=program)],
        capture_output=True, text=True, check=True, env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip
    assert (done.stdout.splitlines(), done.stderr) == (
        ["estimate", "certify check diff export new types", "fish"],
        "",
    )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_is_for_its_shell(run: Any, shell: str) -> None:
    script = run("completion", shell).output
    assert f"_RETICENT_COMPLETE={shell}_complete" in script
    assert json.loads(run("completion", shell, "--json").output)["script"].strip() == script.strip()
    installed = shutil.which(shell)
    if installed is None:
        pytest.skip(f"{shell} is not installed here, so its script is not parsed")
    subprocess.run([installed, "-n"], input=script, text=True, check=True)
