"""What the attacks of this folder share: options, a fleet's remembered answers, tables and curves."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.fleet import VectorisedFleet
from tacit.mechanisms import DBitFlip, HadamardBit
from tacit.plan import Metric, Plan
from tacit.plots import COLOURS, MARKERS, save

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DAY = 86_400
"""Seconds in a day: the length of a round."""


def options(description: str | None, arguments: list[str] | None, devices: int) -> Namespace:
    """--seed, --out and --devices, as given on the command line."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=2017, help="the same seed prints the same figures")
    parser.add_argument("--out", type=Path, default=Path("pictures"), metavar="DIR", help="where pictures go")
    parser.add_argument("--devices", type=int, default=devices, help=f"{devices} unless told otherwise")
    return parser.parse_args(arguments)


def memos(scheme: DBitFlip | HadamardBit, devices: int, seed: int) -> tuple[NDArray[np.int64], ...]:
    """What each device of a fleet answers in each bucket, and the likeliest answer: [devices, buckets]."""
    fleet = VectorisedFleet(Plan("memo", 1, DAY, DAY, (Metric("bucket", scheme),)), devices, seed)
    lows, bits = [int(low) for low in scheme.buckets.edges[:-1]], 1 << np.arange(scheme.bits)
    answers = [fleet.bits("bucket", 0, np.full(devices, low)) @ bits for low in lows]
    cohorts = [report.cohort or 0 for report in fleet.reports(0, {})]
    about = [scheme.window(each) if isinstance(scheme, DBitFlip) else [scheme.row(each)] for each in cohorts]
    likely_ones = scheme.probability_of_one(np.arange(len(lows))[:, None], np.array(about)[:, None]) > 0.5
    return np.stack(answers, axis=1), likely_ones @ bits


def table(columns: Mapping[str, Iterable[object]], digits: int = 3) -> None:
    """Print columns under their names, right aligned; fractions with so many digits."""
    cells = [
        [name, *(f"{each:.{digits}f}" if isinstance(each, float) else str(each) for each in column)]
        for name, column in columns.items()
    ]
    widths = [max(map(len, column)) for column in cells]
    for row in zip(*cells, strict=True):
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def curves(axis: "Axes", x: Any, lines: Mapping[str, Any], *, shares_of: int = 0, **look: Any) -> None:
    """
    One line per name, in the colours of the house; `look` has the title, the labels and the scales.

    Lines that are `shares_of` so many simulated devices get a band: twice their standard error to each side.
    """
    for name, y, colour, marker in zip(lines, lines.values(), COLOURS, MARKERS, strict=False):
        axis.plot(x, y, color=colour, label=name, marker=marker if len(x) < 30 else "", markersize=4)
        if shares_of:
            share = np.asarray(y)
            width = 2 * np.sqrt(share * (1 - share) / shares_of)
            axis.fill_between(x, share - width, share + width, color=colour, alpha=0.2, linewidth=0)
    axis.set(**look)


def ticks(axis: "Axes", places: Iterable[float], **look: Any) -> None:
    """Ticks at these places of the x axis and nowhere else, as plain numbers; `look` as in `curves`."""
    axis.set(**look)
    axis.set_xticks(list(places), [f"{place:,}" for place in places])
    axis.minorticks_off()


def publish(figure: "Figure", folder: Path, name: str, *, together: int = 0) -> None:
    """A legend below each panel, or one of so many columns below all of them `together`; then the files."""
    named: dict[str, Artist] = {}
    for axis in figure.axes:
        handles, labels = axis.get_legend_handles_labels()
        named.update(zip(labels, handles, strict=True))
        if labels and not together:
            axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False, fontsize=8)
    if together:
        artists, names = list(named.values()), list(named)
        figure.legend(artists, names, loc="outside lower center", ncols=together, frameon=False)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # laid out once for both files
    save(figure, folder, name)
    print(f"pictures: {name}.png and {name}.svg in {folder}")
