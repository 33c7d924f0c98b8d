"""
Run the tests of a part with other versions of a library that users cannot choose freely.

    make test-versions
    make test-versions ARGS="otel-1.39 spark-4.0"

A program has the OpenTelemetry that its other libraries need, and PySpark must match the cluster. Each trial
is an environment of its own in build/versions, on top of the one that runs this: it holds the named versions
and finds everything else there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from environments import Environment

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "versions"


def otel(version: str) -> tuple[str, ...]:
    """The packages of OpenTelemetry that reticent and its tests use, all of one version."""
    return tuple(
        f"opentelemetry-{part}=={version}" for part in ("sdk", "api", "proto", "exporter-otlp-proto-common")
    )


TRIALS: dict[str, tuple[tuple[str, ...], str]] = {
    "otel-1.30": (otel("1.30.*"), "otel/tests"),
    "otel-1.39": (otel("1.39.*"), "otel/tests"),
    "spark-3.5": (("pyspark==3.5.*",), "lake/tests/frames/test_spark.py"),
    "spark-4.0": (("pyspark==4.0.*",), "lake/tests/frames/test_spark.py"),
    "spark-4.1": (("pyspark==4.1.*",), "lake/tests/frames/test_spark.py"),
}
"""What is installed, and the tests that are run with it. `make test` runs them with those of constraints.txt."""


def trial(name: str) -> str:
    """Make the environment of a trial and run its tests; returns the versions that were installed."""
    packages, tests = TRIALS[name]
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    environment = Environment(folder)
    own = Path(environment.answer("-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
    base = sysconfig.get_path("purelib")
    # After the trial's own packages, so that these win; as a site folder, so that its editable installs count.
    (own / "base.pth").write_text(f"import site; site.addsitedir({base!r})\n")
    environment.install("--upgrade", "--ignore-installed", *packages)
    command = environment.scripts / "reticent"
    command.write_text(f"#!{environment.python}\nfrom reticent.cli import main\nmain()\n")
    command.chmod(0o755)
    listed = environment.answer("-m", "pip", "list", "--path", own, "--format", "freeze").split()
    known = {package.partition("==")[0] for package in packages}
    versions = ", ".join(line for line in listed if line.partition("==")[0] in known)
    print(f"{name}: {versions}", flush=True)
    environment.run("-m", "pytest", "-q", "-m", "not soak", tests, folder=ROOT)
    return versions


def main(names: list[str]) -> int:
    """Run the named trials, or all; returns the exit code."""
    if unknown := [name for name in names if name not in TRIALS]:
        print(f"No such trial: {', '.join(unknown)}. There are {', '.join(TRIALS)}.", file=sys.stderr)
        return 2
    failed = []
    for name in names or TRIALS:
        try:
            trial(name)
        except subprocess.CalledProcessError as error:
            print(f"{name}: failed with exit code {error.returncode}.", file=sys.stderr)
            failed.append(name)
    print(f"Failed: {', '.join(failed)}." if failed else "All trials passed.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
