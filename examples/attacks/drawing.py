"""What the pictures of this folder share: curves with bands, ticks, and a legend below."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reticent_collector.plots import COLOURS, MARKERS, save

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
