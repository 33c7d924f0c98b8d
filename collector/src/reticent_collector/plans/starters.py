"""Plans to start from, one for each kind of program."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date

from reticent.errors import ParameterError


@dataclass(frozen=True)
class Starter:
    """Usual questions about one kind of program; each metric is the body of its table."""

    about: str
    round: str
    metrics: dict[str, str]


def _mean(unit: str, description: str, top: int) -> str:
    return f'kind = "mean"\nunit = "{unit}"\ndescription = "{description}"\nmax_value = {top}\n'


def _choice(description: str, *labels: str) -> str:
    words = json.dumps(labels)
    return f'kind = "choice"\ndescription = "{description}"\nlabels = {words}\nmechanism = "hadamard-bit"\n'


def _flag(description: str) -> str:
    return f'kind = "flag"\ndescription = "{description}"\n'


def _timing(unit: str, description: str, *edges: int) -> str:
    return (
        f'kind = "histogram"\nunit = "{unit}"\ndescription = "{description}"\nedges = {list(edges)}\n'
        'absent = true\nmechanism = "hadamard-bit"\n'
    )


STARTERS = {
    "command-line": Starter(
        "A command-line tool that people run now and then: rounds of a week.",
        "7d",
        {
            "runs": _mean("run", "Runs in the week", 100),
            "command": _choice("The last command", "build", "test", "run", "format", "help"),
            "failed": _flag("Whether a run ended with an error"),
            "run_ms": _timing("ms", "How long the last run took", 0, 100, 300, 1000, 3000, 10_000, 60_000),
        },
    ),
    "desktop": Starter(
        "A desktop application that is open for hours.",
        "1d",
        {
            "active_minutes": _mean("minute", "Minutes in front", 480),
            "crashed": _flag("Whether it crashed"),
            "theme": _choice("The theme", "light", "dark", "system"),
            "start_ms": _timing(
                "ms", "How long the last start took", 0, 300, 1000, 2000, 5000, 15_000, 60_000
            ),
        },
    ),
    "web": Starter(
        "A web page or a web application.",
        "1d",
        {
            "visits": _mean("visit", "Page views", 50),
            "section": _choice("The last section", "home", "search", "product", "basket", "help"),
            "checkout": _flag("Whether an order was begun"),
            "load_ms": _timing(
                "ms", "How long the last page took to load", 0, 200, 500, 1000, 2500, 5000, 20_000
            ),
        },
    ),
    "service": Starter(
        "A service that others install and run: each installation is a device.",
        "1d",
        {
            "requests": _mean("request", "Requests served", 100_000),
            "database": _choice("The database in use", "sqlite", "postgresql", "mysql"),
            "upgraded": _flag("Whether it was upgraded"),
            "p95_ms": _timing(
                "ms", "The 95th percentile of response times", 0, 10, 30, 100, 300, 1000, 10_000
            ),
        },
    ),
    "mobile": Starter(
        "A mobile application or a game.",
        "1d",
        {
            "minutes": _mean("minute", "Minutes of play", 240),
            "level": _choice("The last world that was played", "tutorial", "forest", "desert", "castle"),
            "bought": _flag("Whether something was bought"),
            "frame_ms": _timing("ms", "Median time of a frame", 0, 9, 17, 34, 67, 200),
        },
    ),
    "device": Starter(
        "A device at home or in the field: a thermostat, a router, a sensor.",
        "1d",
        {
            "active_minutes": _mean("minute", "Minutes switched on", 1440),
            "restarted": _flag("Whether it restarted"),
            "mode": _choice("The last mode", "off", "eco", "comfort", "boost"),
            "signal": _timing("percent", "Strength of the radio signal", 0, 20, 40, 60, 80, 100),
        },
    ),
}
"""By kind of program."""


def starter_plan(
    kind: str, name: str, owner: str, expires: date, metrics: Collection[str] | None = None
) -> str:
    """
    A whole plan.toml for a kind of program, with all of its metrics or some of them.

    A device answers one of them, in one round of each week: any two histories lose at most 1 in a calendar week
    and 54 in a year, which is what a device allows by default.
    """
    if kind not in STARTERS:
        raise ParameterError("kind", f"one of {', '.join(STARTERS)}", kind)
    starter = STARTERS[kind]
    for metric in metrics or ():
        if metric not in starter.metrics:
            raise ParameterError("metric", f"one of {', '.join(starter.metrics)}", metric)
    chosen = [metric for metric in starter.metrics if metrics is None or metric in metrics]
    if not chosen:
        raise ParameterError("metrics", "at least one", "none")
    some = "metrics = 1" if len(chosen) > 1 else ""
    window = (
        "# Any two histories lose at most 1 in a calendar week, and 54 in a year, which a device allows by default.\n"
        f'[answers]\nkind = "sampled"\nwindow = "7d"\n{some}'
    )
    return (
        f"# {starter.about}\n# Change ranges and labels to yours; `reticent plan check` shows what comes of it.\n\n"
        f'[plan]\nname = "{name}"\nversion = 1\nround = "{starter.round}"\nowner = {json.dumps(owner)}\n'
        f"expires = {expires.isoformat()}\n\n{window.strip()}\n\n"
        + "\n".join(f"[metrics.{metric}]\n{starter.metrics[metric]}epsilon = 1.0\n" for metric in chosen)
    )
