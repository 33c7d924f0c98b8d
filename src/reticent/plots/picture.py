"""A figure that a notebook shows by itself. Only this module needs matplotlib to be imported."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure

from reticent.plots import drawing

_DOTS, _SCREEN = 150, 96


class Picture(Figure):
    """
    A `matplotlib` figure, shown as the last line of a cell whatever backend is in use.

    Figures here are made without `pyplot`, so no backend knows of them; this one makes its own PNG, sharp
    on dense screens and of the size it has on paper.
    """

    @drawing
    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        image = BytesIO()
        self.savefig(image, format="png", dpi=_DOTS)
        width, height = (round(inches * _SCREEN) for inches in self.get_size_inches())
        return image.getvalue(), {"width": width, "height": height}
