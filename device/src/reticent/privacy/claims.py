"""
The privacy claims: whom each compares, over what, the observer, what is not covered, its tests and its theorems.

Every sentence about privacy that this package prints comes from here, and the documentation quotes it word for
word.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from reticent.privacy.rounding import printed

MEANING = (
    "A loss L between two cases: whatever is sent is at most e^L times as likely in one as in the other."
)
NOT_COVERED = (
    "Not covered: that a device is on and takes part, its public tags and cohort, its network address."
)


@dataclass(frozen=True, slots=True)
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

        >>> CLAIMS["round"].scope()
        'any two values, in one round'
        """
        return f"{self.compares}, {self.over.format(time=time)}"

    def says(self, loss: float, time: str = "") -> str:
        """
        The sentence with its figure.

        >>> CLAIMS["round"].says(0.569441)
        'The answers of one round are at most e^0.5695 times as likely from one value as from any other.'
        """
        if math.isinf(loss):
            return f"Infinite: between {self.scope(time)}, some answers are possible in one case only."
        return self.sentence.format(loss=printed(loss), time=time)


_TOML = r'''
[round]
title = "one round"
compares = "any two values"
over = "in one round"
sentence = "The answers of one round are at most e^{loss} times as likely from one value as from any other."
observer = "one round"
not_covered = "a second round: it is answered from the same memory, and the loss grows beyond this figure"
tight = true
tests = ["device/tests/laws/test_plans.py::test_one_round"]
theorems = ["proofs/Claims.v::one_round"]

[constant]
title = "constant device"
compares = "any two values that never change"
over = "all rounds together"
sentence = """\
All answers ever sent are at most e^{loss} times as likely from a device that keeps one value as from a \
device that keeps any other."""
observer = "all rounds, and knows that they are one device's"
not_covered = "a device that changes, compared with anybody"
tight = true
tests = ["device/tests/laws/test_plans.py::test_constant_devices"]
theorems = ["proofs/Claims.v::constant_device_forever"]

[lifetime]
title = "same pattern"
compares = "devices whose rounded values repeat in the same pattern"
over = "all rounds together"
sentence = """\
All answers ever sent are at most e^{loss} times as likely from one device as from any other whose \
rounded values repeat in the same pattern."""
observer = "all rounds, and knows that they are one device's; may know the rounded values of both"
not_covered = """\
devices whose rounded values repeat in different patterns, even if both change in the same rounds: \
rounding may join two values of one device and separate those of the other"""
tight = true
tests = ["device/tests/laws/test_plans.py::test_same_pattern"]
theorems = ["proofs/Patterns.v::loss_by_width_of_mean", "proofs/Claims.v::same_pattern_histogram"]

[change_per_round]
title = "change moved by one round"
compares = "two histories that differ in one round"
over = "all rounds together"
sentence = """\
All answers ever sent are at most e^{loss} times as likely from one history as from another that differs \
from it in one round, such as a change that came one round later."""
observer = "all rounds, and knows that they are one device's; may know the remembered answers"
not_covered = "whether there was a change at all; a change moved by several rounds loses this for each"
tight = true
tests = ["device/tests/laws/test_plans.py::test_a_change_moved_by_one_round"]
theorems = ["proofs/Claims.v::moved_change"]

[any_history]
title = "any two histories"
compares = "any two histories, whatever the devices do"
over = "over {time}"
sentence = "All answers of {time} are at most e^{loss} times as likely from one history as from any other."
observer = "all rounds, and knows that they are one device's"
not_covered = "a new memory within that time (forget, or other privacy parameters), whose loss adds"
tight = false
tests = ["device/tests/laws/test_plans.py::test_any_two_histories"]
theorems = ["proofs/Claims.v::any_two_histories"]

[window]
title = "one window"
compares = "any two histories, whatever the devices do"
over = "in one window"
sentence = """\
What a device sends in one window is at most e^{loss} times as likely from one history as from any \
other."""
observer = "the window; all windows lose this much each"
not_covered = "answers that were remembered under an earlier version, whose loss adds"
tight = true
tests = [
  "device/tests/laws/test_windows.py::test_one_window",
  "device/tests/laws/test_windows.py::test_two_windows",
]
theorems = ["proofs/Plans.v::loss_of_asked"]

[spent]
title = "loss so far"
compares = "this device and any whose rounded values repeat in the same pattern"
over = "all reports so far"
sentence = """\
All answers so far are at most e^{loss} times as likely from this device as from any other whose rounded \
values repeat in the same pattern."""
observer = "all rounds, and knows that they are one device's; may know the rounded values of both"
not_covered = "devices whose rounded values repeat in different patterns"
tight = true
tests = ["device/tests/laws/test_same_pattern.py::test_means_by_width"]
theorems = ["proofs/Patterns.v::loss_by_width_of_mean", "proofs/Claims.v::same_pattern_histogram"]

[answered]
title = "windows answered"
compares = "any two histories, whatever the devices do"
over = "all windows answered so far"
sentence = """\
All their reports together are at most e^{loss} times as likely from one history of your values as from \
any other."""
observer = "all rounds, and knows that they are one device's"
not_covered = "answers that were remembered under another version, whose loss adds"
tight = true
tests = ["device/tests/laws/test_sampled_windows.py::test_two_windows_lose_twice_epsilon_over_all_histories"]
theorems = ["proofs/Windows.v::loss_of_windows", "proofs/Windows.v::loss_of_a_year"]

[tracking]
title = "matched"
compares = "one report and those of {devices} devices in another round"
over = "two rounds"
sentence = """\
Of {devices} devices that keep their values, one who judges reports one by one finds at most {share} again; one \
who compares all reports at once {together}."""
observer = """\
answer bits, cohort and tags, and the remembered answers from earlier rounds; no address. The first figure is for one \
who judges one report at a time, the second for any"""
not_covered = "network addresses and times of sending; devices that are not drawn alike"
tight = true
tests = [
  "collector/tests/plans/test_tracking.py::test_no_population_is_matched_more_often",
  "collector/tests/plans/test_tracking.py::test_no_matcher_of_all_reports_finds_more",
]
theorems = []
'''

CLAIMS: Mapping[str, Claim] = {name: Claim(name, **fields) for name, fields in tomllib.loads(_TOML).items()}
"""By id; those of a metric and of a whole plan first, in the order of the columns."""
