"""Charts taken apart again: what is drawn is read back through the labels of its axes."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

Tree = ElementTree.Element
SPACE = "{http://www.w3.org/2000/svg}"


class Drawn:
    """One SVG of a chart."""

    def __init__(self, root: Tree) -> None:
        self.root = root

    def all(self, tag: str, kind: str = "", inside: Tree | None = None) -> list[Tree]:
        """Elements by tag and by one of their classes."""
        found = (self.root if inside is None else inside).iter(SPACE + tag)
        return [each for each in found if not kind or kind in (each.get("class") or "").split()]

    def places(self, path: Tree) -> list[tuple[float, float]]:
        """The corners of a path of straight lines."""
        corners = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path.get("d") or "")
        return [(float(x), float(y)) for x, y in corners]

    def stem(self, path: Tree) -> tuple[float, float]:
        """From where to where a whisker goes."""
        low, high = re.search(r"M[-\d.]+ (-?[\d.]+)V(-?[\d.]+)$", path.get("d") or "").groups()  # type: ignore[union-attr]
        return float(low), float(high)

    def level(self, y: float) -> float:
        """The figure at a height, read off the labels of the axis."""
        labels = [
            (float(each.get("y") or 0) - 4, _number(each.text or ""))
            for each in self.all("text", "label")
            if each.get("text-anchor") == "end" and re.fullmatch(r"[−\d.,]+", each.text or "")
        ]
        labels = [pair for pair in labels if pair[0] <= self.bottom]
        (low_y, low), (high_y, high) = labels[0], labels[-1]
        return low + (y - low_y) / (high_y - low_y) * (high - low)

    @property
    def bottom(self) -> float:
        """The height of the lowest rule."""
        rules = [*self.all("line", "rule"), *self.all("line", "zero")]
        return max(float(each.get("y1") or 0) for each in rules)


def _number(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))


@pytest.fixture
def drawn() -> Callable[[str], list[Drawn]]:
    """All SVGs of a chart, wide before narrow."""

    def parse(markup: str) -> list[Drawn]:
        root = ElementTree.fromstring(f"<div>{markup}</div>")  # noqa: S314  (our own charts)
        return [Drawn(each) for each in root]

    return parse
