"""
Ask for known vulnerabilities of the versions in the constraints files.

    make audit-dependencies

pip-audit asks the JSON interface of pypi.org about each version. Where that does not answer (no network,
a mirror of files only), nothing has been checked: then this fails and prints why.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from environments import Environment

ROOT = Path(__file__).parents[1]
FILES = ("constraints.txt", "constraints-minimal.txt")


def verdict(name: str, answer: dict[str, Any]) -> list[str]:
    """
    The problems of a file in pip-audit's JSON: none when every version was checked and is clean.

    >>> clean = {"name": "click", "version": "8.5.1", "vulns": []}
    >>> verdict("constraints.txt", {"dependencies": [clean]})
    []
    >>> skipped = {"name": "rich", "skip_reason": "not found"}
    >>> verdict("constraints.txt", {"dependencies": [clean, skipped]})
    ['constraints.txt: 1 of 2 versions could not be checked (is pypi.org in reach?), first rich: not found']
    """
    asked = answer["dependencies"]
    skipped = [each for each in asked if "skip_reason" in each]
    problems = [
        f"{name}: {each['name']} {each['version']}: {hole['id']}, fixed in: {', '.join(hole['fix_versions'])}"
        for each in asked
        for hole in each.get("vulns", [])
    ]
    if skipped:
        first = skipped[0]
        problems.append(
            f"{name}: {len(skipped)} of {len(asked)} versions could not be checked "
            f"(is pypi.org in reach?), first {first['name']}: {first['skip_reason']}"
        )
    if not asked:
        problems.append(f"{name}: no version was found in it")
    return problems


def audit(environment: Environment, name: str) -> list[str]:
    """Run pip-audit over one file."""
    command = [str(environment.python), "-m", "pip_audit", "--requirement", str(ROOT / name)]
    command += ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--format", "json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if not done.stdout.strip():
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return [f"{name}: pip-audit could not ask. Run this where pypi.org can be reached. It said: {last}"]
    return verdict(name, json.loads(done.stdout))


def main() -> int:
    """Audit each file; 0 when all versions were checked and none is known to be vulnerable."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Environment(Path(folder) / "audit")
        environment.install("pip-audit")
        problems = [problem for name in FILES for problem in audit(environment, name)]
    print("\n".join(problems) or f"{' and '.join(FILES)}: no known vulnerability in any version")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
