"""
The privacy claims that a device prints: whom each compares, over what, and what is not covered.

Those about a plan, which its author reads, are in `reticent_collector.privacy.CLAIMS` with these two.
"""

from __future__ import annotations

import math

from reticent.frozen import frozen
from reticent.losses import printed

NOT_COVERED = (
    "Not covered: that a device is on and takes part, its public tags and cohort, its network address."
)


@frozen()
class Claim:
    """A claim and the pairs it holds for. `sentence` has {loss} and may have {time} to be filled in."""

    id: str  #: The field of `Losses` and the key in JSON, where it is a loss of a metric
    title: str  #: The head of a column
    compares: str  #: Between whom: every such pair is covered
    over: str  #: Over how many rounds; may have {time}
    sentence: str
    observer: str  #: What the other side sees
    not_covered: str
    tight: bool  #: Whether some pair attains the figure of a metric, up to the 2^-60 of integer thresholds
    tests: list[str]  #: Tests that compute the truth over all pairs by exact enumeration, as path::name
    theorems: list[str]  #: Theorems that prove it for every plan, as path::name; none where it is only tested

    def scope(self, time: str = "") -> str:
        """
        Whom it compares and over what, in one line.

        >>> SPENT.scope()
        'this device and any whose rounded values repeat in the same pattern, all reports so far'
        """
        return f"{self.compares}, {self.over.format(time=time)}"

    def says(self, loss: float, time: str = "") -> str:
        """
        The sentence with its figure.

        >>> ANSWERED.says(0.569441)[-83:]
        'at most e^0.5695 times as likely from one history of your values as from any other.'
        """
        if math.isinf(loss):
            return f"Infinite: between {self.scope(time)}, some answers are possible in one case only."
        return self.sentence.format(loss=printed(loss), time=time)


SPENT = Claim(
    "spent",
    title="loss so far",
    compares="this device and any whose rounded values repeat in the same pattern",
    over="all reports so far",
    sentence="All answers so far are at most e^{loss} times as likely from this device as from any other whose "
    "rounded values repeat in the same pattern.",
    observer="all rounds, and knows that they are one device's; may know the rounded values of both",
    not_covered="devices whose rounded values repeat in different patterns",
    tight=True,
    tests=["collector/tests/laws/test_same_pattern.py::test_means_by_width"],
    theorems=["proofs/Patterns.v::loss_by_width_of_mean", "proofs/Claims.v::same_pattern_histogram"],
)
ANSWERED = Claim(
    "answered",
    title="windows answered",
    compares="any two histories, whatever the devices do",
    over="all windows answered so far",
    sentence="All their reports together are at most e^{loss} times as likely from one history of your values as "
    "from any other.",
    observer="all rounds, and knows that they are one device's",
    not_covered="answers that were remembered under another version, whose loss adds",
    tight=True,
    tests=[
        "collector/tests/laws/test_sampled_windows.py::test_two_windows_lose_twice_epsilon_over_all_histories"
    ],
    theorems=["proofs/Windows.v::loss_of_windows", "proofs/Windows.v::loss_of_a_year"],
)
