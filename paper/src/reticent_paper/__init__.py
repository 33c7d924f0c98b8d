"""
The evaluation and deployment of "Collecting Telemetry Data Privately" (Ding, Kulkarni, Yekhanin, NIPS 2017) at
full scale: one module per experiment, from the question to the verdict on each claim of the paper.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pkgutil import resolve_name

from reticent.errors import ParameterError
from reticent_paper.claims import ExperimentResult, Run, Setting

ALL = "all"


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment that can be asked for; its module is imported when it is."""

    name: str
    function: str
    about: str

    def run(self, setting: Setting) -> ExperimentResult:
        """Run it."""
        result: ExperimentResult = resolve_name(f"reticent_paper{self.function}")(setting)
        return result


EXPERIMENTS = (
    Experiment("fig3", ".patterns:run", "distribution of pattern supports"),
    Experiment("fig4", ".means:figure_4", "mean estimation, app usage"),
    Experiment("fig5", ".histograms:figure_5", "histogram estimation, app usage"),
    Experiment("fig6", ".means:figure_6", "mean estimation, synthetic values"),
    Experiment("fig7", ".histograms:figure_7", "histogram estimation, synthetic values"),
    Experiment("theorems", ".theorems:run", "theorems and sentences, computed"),
    Experiment("tables", ":tables", "losses, bounds, age in days, remembered histograms"),
    Experiment("after", ".after:run", "what came after 2017, at equal loss"),
    Experiment("deployment", ".deployment:run", "20 apps, every 6 hours, for a month"),
    Experiment("windows", ".windows:run", "the same seconds asked otherwise, as a split too"),
)
"""In the order in which they are run and reported; those that share values are neighbours."""


def tables(setting: Setting) -> ExperimentResult:
    """All tables, part by part."""
    from reticent_paper import bounds, losses, memos

    parts = losses.run(), bounds.run(setting), memos.ages(setting), memos.histograms()
    return ExperimentResult(
        name="tables",
        title="Tables: losses, bounds, age in days, remembered histograms",
        summary=" ".join(part.summary for part in parts),
        tables=tuple(table for part in parts for table in part.tables),
        pictures=tuple(picture for part in parts for picture in part.pictures),
        claims=tuple(claim for part in parts for claim in part.claims),
    )


def chosen(names: Iterable[str]) -> list[Experiment]:
    """The experiments of some names, each once and in order; "all" is all of them."""
    wanted = set(names)
    known = [experiment.name for experiment in EXPERIMENTS]
    unknown = sorted(wanted - {ALL, *known})
    if unknown:
        raise ParameterError("experiment", f"one of {', '.join(known)} or {ALL}", ", ".join(unknown))
    return [experiment for experiment in EXPERIMENTS if ALL in wanted or experiment.name in wanted]


def run(
    names: Iterable[str], setting: Setting, starting: Callable[[Experiment], None] = lambda _: None
) -> Run:
    """Run the experiments of some names, one after the other; `starting` is called before each."""
    results, seconds = [], []
    for experiment in chosen(names):
        starting(experiment)
        start = time.perf_counter()
        results.append(experiment.run(setting))
        seconds.append(time.perf_counter() - start)
    return Run(setting, tuple(results), tuple(seconds), peak_memory(), versions())


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
    numbers = {"python": platform.python_version()}
    for name in ("reticent", "numpy", "scipy", "matplotlib"):
        try:
            numbers[name] = version(name)
        except PackageNotFoundError:
            numbers[name] = "not installed"
    return numbers
