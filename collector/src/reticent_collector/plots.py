"""
Pictures: one look for every plot that reticent draws into a file.

A figure is made without `pyplot`, so drawing needs no screen, keeps no global state and is safe in threads.
The same figure gives the same bytes: files carry no date and no random ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from reticent.errors import MissingPackageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#5F5F5F", "#000000")
"""Told apart by people who see few colours (Okabe and Ito 2008); the order is that of use."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Told apart in print: the n-th line has the n-th marker."""

Arguments = ParamSpec("Arguments")
Drawn = TypeVar("Drawn")

_DOTS, _SCREEN = 150, 96
_LOOK = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "errorbar.capsize": 2.0,
    "figure.dpi": 150,
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.0,
    "svg.fonttype": "path",
    "svg.hashsalt": "reticent",
}


def drawing(draw: Callable[Arguments, Drawn]) -> Callable[Arguments, Drawn]:
    """A function that draws, with our look in force while it does, and the reader's own before and after."""

    @wraps(draw)
    def inner(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Drawn:
        with _look():
            return draw(*args, **kwargs)

    return inner


def panels(
    columns: int = 1, rows: int = 1, *, width: float = 4.0, height: float = 3.2, **options: Any
) -> tuple[Figure, Sequence[Axes]]:
    """
    A figure with `rows` x `columns` axes, in reading order; sizes are inches per panel.

    >>> figure, (left, right) = panels(2)
    >>> figure.get_size_inches().tolist()
    [8.0, 3.2]
    """
    with _look():
        figure = new_figure(width * columns, height * rows)
        axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.ravel())


def new_figure(width: float, height: float) -> Figure:
    """A figure of so many inches, which a notebook shows by itself as the last line of a cell."""
    return _picture_class()(figsize=(width, height), layout="constrained")


def save(figure: Figure, folder: Path, name: str, kinds: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write a figure as `folder/name.png` and `.svg`; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}.{kind}" for kind in kinds]
    with _look():
        for file, kind in zip(files, kinds, strict=True):
            figure.savefig(file, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return files


def _look() -> Any:
    try:
        from matplotlib import rc_context
    except ImportError as missing:
        raise MissingPackageError("reticent-lab", missing.name or "matplotlib") from None
    return rc_context(_LOOK)  # type: ignore[arg-type]


@cache
def _picture_class() -> type[Figure]:
    """
    The class of our figures, made when matplotlib is first needed.

    Figures here are made without `pyplot`, so no backend knows of them; this one makes its own PNG, sharp on
    dense screens and of the size it has on paper.
    """
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that a notebook shows whatever backend is in use."""

        @drawing
        def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
            image = BytesIO()
            self.savefig(image, format="png", dpi=_DOTS)
            width, height = (round(inches * _SCREEN) for inches in self.get_size_inches())
            return image.getvalue(), {"width": width, "height": height}

    return Picture
