from __future__ import annotations

import pytest

from reticent.dashboard.certainty import certainty


@pytest.mark.parametrize(
    ("half_width", "word", "dots"),
    [
        (5, "sharp", 4),
        (5.1, "good", 3),
        (15, "good", 3),
        (16, "rough", 2),
        (50, "rough", 2),
        (51, "faint", 1),
    ],
)
def test_words_follow_the_half_width(half_width: float, word: str, dots: int) -> None:
    found = certainty(100, 100 - half_width, 100 + half_width, half_width)
    assert (found.word, found.dots) == (word, dots)


def test_what_may_be_nothing_is_faint_however_narrow() -> None:
    assert certainty(1e-9, 0, 2e-9, 1e-10).word == "faint"
    assert certainty(-5, 0, 3, 8).word == "faint"


def test_an_interval_with_nothing_in_it_is_odd() -> None:
    assert certainty(-50, 0, 0, 8).word == "odd"
