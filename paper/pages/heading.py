"""What stands above the findings: how the run was set up."""

from __future__ import annotations

from paper.pages.words import duration
from paper.run import Run

TITLE = "Collecting Telemetry Data Privately, reproduced"

ABOUT = (
    "Ding, Kulkarni and Yekhanin (NIPS 2017) evaluate and deploy mechanisms that reticent implements. Below "
    "is each claim of these sections, what was measured, and a verdict that follows from the figures. A "
    "claim that does not hold is a finding, not a failure of the run."
)

DEFAULT_POPULATION = (
    "daily seconds of app use per person, drawn from generators fitted to published recordings "
    "(Vuorre et al., osf.io/fb38n), since the paper's data set is not public"
)


def facts(run: Run) -> list[tuple[str, str]]:
    """Seed, sizes, population, versions: what is needed to repeat the run."""
    setting = run.setting
    return [
        ("Seed", str(setting.seed)),
        ("Repetitions", f"{setting.repetitions:,}"),
        ("Fleets", ", ".join(f"{fleet:,}" for fleet in setting.fleets) + " devices"),
        ("Days", str(setting.days)),
        ("Population", population(run)),
        ("Versions", ", ".join(f"{name} {number}" for name, number in run.versions.items())),
    ]


def costs(run: Run) -> list[tuple[str, str]]:
    """Duration and memory: what differs between two runs with one seed."""
    parts = ", ".join(
        f"{result.name} {duration(seconds)}" for result, seconds in zip(run.results, run.seconds, strict=True)
    )
    memory = f"{run.peak_bytes / 2**30:.2f} GiB at most" if run.peak_bytes else "not told by this system"
    return [("Duration", f"{duration(sum(run.seconds))} ({parts})"), ("Memory", memory)]


def population(run: Run) -> str:
    """Where values came from, and why that is fair."""
    given = run.setting.population
    if given is None:
        return DEFAULT_POPULATION
    individuals = len(getattr(given, "individuals", ()))
    if not individuals:
        return given.name
    largest = max(run.setting.fleets)
    words = f"{given.name}, {individuals:,} recorded individuals"
    if largest > individuals:
        words += (
            f"; fleets above {individuals:,} are drawn from them with replacement, so some individuals "
            "stand for several devices and rare patterns look more common than they are"
        )
    return words
