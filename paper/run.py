"""Running experiments by name: which there are, in which order, and what a run was made of."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from paper.experiment import Claim, Progress, Result, Setting, quiet
from reticent.errors import ParameterError

ALL = "all"


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment that can be asked for; its module is imported when it is."""

    name: str
    module: str
    about: str

    def run(self, setting: Setting, progress: Progress = quiet) -> Result:
        """Run it."""
        result: Result = import_module(f"paper.{self.module}").run(setting, progress)
        return result


EXPERIMENTS = (
    Experiment("fig3", "figure3", "distribution of pattern supports"),
    Experiment("fig4", "figure4", "mean estimation, app usage"),
    Experiment("fig5", "figure5", "histogram estimation, app usage"),
    Experiment("fig6", "figure6", "mean estimation, synthetic values"),
    Experiment("fig7", "figure7", "histogram estimation, synthetic values"),
    Experiment("check", "comparison", "fast simulation against device by device"),
    Experiment("tables", "tables", "losses, bounds, age in days, remembered histograms"),
    Experiment("deployment", "deployment", "20 apps, every 6 hours, for a month"),
)
"""In the order in which they are run and reported; those that share values are neighbours."""

NAMES = tuple(experiment.name for experiment in EXPERIMENTS)


def chosen(names: Iterable[str]) -> list[Experiment]:
    """
    The experiments of some names, each once and in order; "all" is all of them.

    >>> [each.name for each in chosen(["tables", "fig3", "fig3"])]
    ['fig3', 'tables']
    """
    wanted = set(names)
    unknown = sorted(wanted - {ALL, *NAMES})
    if unknown:
        raise ParameterError("experiment", f"one of {', '.join(NAMES)} or {ALL}", ", ".join(unknown))
    return [experiment for experiment in EXPERIMENTS if ALL in wanted or experiment.name in wanted]


@dataclass(frozen=True, slots=True)
class Run:
    """What experiments found, and what it took."""

    setting: Setting
    results: tuple[Result, ...]
    seconds: tuple[float, ...]
    """Per result."""
    peak_bytes: int
    """The most memory that the process ever held; 0 where the system does not tell."""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All claims, in the order of the results."""
        return tuple(claim for result in self.results for claim in result.claims)


Watch = Callable[[Experiment], Progress]
"""Handed each experiment before it starts; what it returns is told how far that one is."""


def run(names: Sequence[str], setting: Setting, watch: Watch = lambda _: quiet) -> Run:
    """Run the experiments of some names, one after the other."""
    results, seconds = [], []
    for experiment in chosen(names):
        with _timed() as taken:
            results.append(experiment.run(setting, watch(experiment)))
        seconds += taken
    return Run(setting, tuple(results), tuple(seconds), peak_memory(), versions())


@contextmanager
def _timed() -> Iterator[list[float]]:
    taken: list[float] = []
    start = time.perf_counter()
    yield taken
    taken.append(time.perf_counter() - start)


def peak_memory() -> int:
    """The most bytes this process has held so far; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def versions() -> dict[str, str]:
    """What a run was made with."""
    found = {"python": platform.python_version()}
    for name in ("reticent", "numpy", "scipy", "matplotlib"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
