"""How sure a figure is, in one word: what a person should see before the digits."""

from __future__ import annotations

from dataclasses import dataclass

from reticent.dashboard.words import rounded

LEVELS = ((0.05, "sharp", 4), (0.15, "good", 3), (0.5, "rough", 2))
"""(largest half-width as a part of the value, word, dots out of four)."""


@dataclass(frozen=True, slots=True)
class Certainty:
    """A word, so many dots out of four, and the sentence behind them."""

    word: str
    dots: int
    sentence: str


WITHIN_A_BUCKET = Certainty("sharp", 4, "within one bucket")
"""For a quantile whose interval is a single bucket."""


def certainty(value: float, lower: float, upper: float, half_width: float) -> Certainty:
    """
    The half-width as a part of the figure: sharp up to 5 %, good up to 15 %, rough up to 50 %, else faint.

    A figure whose interval reaches down to 0 is faint however narrow the interval is, because it may be
    nothing at all.

    >>> certainty(2143, 1831, 2455, 312).word, certainty(2143, 2100, 2186, 43).word
    ('good', 'sharp')
    >>> certainty(10, 0, 40, 30).sentence
    'cannot be told from 0'
    """
    if lower >= upper:
        return Certainty("odd", 0, "no honest fleet explains these reports")
    if lower <= 0 or value <= 0:
        return Certainty("faint", 1, "cannot be told from 0")
    relative = half_width / value
    sentence = f"± {rounded(100 * relative, 2)} % of the figure"
    for most, word, dots in LEVELS:
        if relative <= most:
            return Certainty(word, dots, sentence)
    return Certainty("faint", 1, sentence)
