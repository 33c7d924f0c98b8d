"""How a plan is answered: with remembered answers in every round, or once per window with fresh ones."""

from __future__ import annotations

from dataclasses import dataclass

from reticent.errors import ParameterError

FIRST_MONDAY = 345_600
"""1970-01-05, 00:00 UTC: windows are counted from the first round that starts then or later."""


@dataclass(frozen=True, slots=True)
class Answers:
    """
    What a device does with its answers, as the plan's table `[answers]` says.

    Remembered (the default): one report per round, from answers that are drawn once and kept. Sampled: one
    report per window of rounds, in a round that the device's secret picks, with draws that are fresh in
    each window.

    >>> Answers().sampled, Answers(window=28, metrics=1).sampled
    (False, True)
    """

    window: int = 0
    """Rounds of a window; 0 where answers are remembered."""
    metrics: int | None = None
    """Metrics that a report answers; None: all of them."""

    def __post_init__(self) -> None:
        if self.window < 0:
            raise ParameterError("window", "a number of rounds, or 0 for remembered answers", self.window)
        if self.metrics is not None and (self.metrics < 1 or not self.window):
            raise ParameterError("metrics", "at least 1, and a window to answer them in", self.metrics)

    @property
    def sampled(self) -> bool:
        """Whether a device answers once per window, with fresh draws."""
        return self.window > 0

    def windows_touched(self, rounds: int) -> int:
        """
        The most windows that so many consecutive rounds can touch: ⌈(rounds - 1) / window⌉ + 1.

        >>> [Answers(window=28).windows_touched(rounds) for rounds in (1, 28, 1460)]
        [1, 2, 54]
        """
        if rounds < 1 or not self.sampled:
            raise ParameterError("rounds", "at least 1, of a plan with sampled answers", rounds)
        return -(-(rounds - 1) // self.window) + 1

    def window_of(self, round_number: int, round_seconds: int) -> Window | None:
        """The window of a round; None where answers are remembered, and before the first window."""
        origin = -(-FIRST_MONDAY // round_seconds)
        if not self.sampled or round_number < origin:
            return None
        first = round_number - (round_number - origin) % self.window
        return Window(first * round_seconds, first, self.window)


@dataclass(frozen=True, slots=True)
class Window:
    """A run of rounds in which a device with sampled answers sends at most one report."""

    start: int
    """Unix seconds: what every draw of the window is keyed by."""
    first: int
    """The number of its first round."""
    rounds: int
