"""
The privacy claims: whom each compares, over what, the observer, what is not covered, its tests and its theorems.

Every sentence about privacy that is printed comes from here or from `reticent.claims`, and the documentation quotes
it word for word.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping

from reticent.claims import ANSWERED, SPENT, Claim

MEANING = (
    "A loss L between two cases: whatever is sent is at most e^L times as likely in one as in the other."
)

_TOML = r'''
[round]
title = "one round"
compares = "any two values"
over = "in one round"
sentence = "The answers of one round are at most e^{loss} times as likely from one value as from any other."
observer = "one round"
not_covered = "a second round: it is answered from the same memory, and the loss grows beyond this figure"
tight = true
tests = ["collector/tests/laws/test_plans.py::test_one_round"]
theorems = ["proofs/Claims.v::one_round"]

[constant]
title = "constant device"
compares = "any two values that never change"
over = "all rounds together"
sentence = """\
All answers ever sent from one memory are at most e^{loss} times as likely from a device that keeps one value \
as from a device that keeps any other."""
observer = "all rounds, and knows that they are one device's"
not_covered = """\
a device that changes, compared with anybody; another memory (forget, a lost file, or other privacy \
parameters), whose loss adds"""
tight = true
tests = ["collector/tests/laws/test_plans.py::test_constant_devices"]
theorems = ["proofs/Claims.v::constant_device_forever"]

[lifetime]
title = "same pattern"
compares = "devices whose rounded values repeat in the same pattern"
over = "all rounds together"
sentence = """\
All answers ever sent from one memory are at most e^{loss} times as likely from one device as from any \
other whose rounded values repeat in the same pattern."""
observer = "all rounds, and knows that they are one device's; may know the rounded values of both"
not_covered = """\
devices whose rounded values repeat in different patterns, even if both change in the same rounds: \
rounding may join two values of one device and separate those of the other; another memory (forget, a lost file, or \
other privacy parameters), whose loss adds"""
tight = true
tests = ["collector/tests/laws/test_plans.py::test_same_pattern"]
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
tests = ["collector/tests/laws/test_plans.py::test_a_change_moved_by_one_round"]
theorems = ["proofs/Claims.v::moved_change"]

[any_history]
title = "any two histories"
compares = "any two histories, whatever the devices do"
over = "over {time}"
sentence = "All answers of {time} are at most e^{loss} times as likely from one history as from any other."
observer = "all rounds, and knows that they are one device's"
not_covered = "a new memory within that time (forget, or other privacy parameters), whose loss adds"
tight = false
tests = ["collector/tests/laws/test_plans.py::test_any_two_histories"]
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
  "collector/tests/laws/test_windows.py::test_one_window",
  "collector/tests/laws/test_windows.py::test_two_windows",
]
theorems = ["proofs/Plans.v::loss_of_asked"]

[tracking]
title = "matched"
compares = "one report and those of {devices} devices in another round"
over = "two rounds"
sentence = """\
Of {devices} devices that keep their values, one who judges reports one by one finds at most {share} again on average; \
one who compares all reports at once {together}."""
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

CLAIMS: Mapping[str, Claim] = {
    **{name: Claim(name, **fields) for name, fields in tomllib.loads(_TOML).items()},
    SPENT.id: SPENT,
    ANSWERED.id: ANSWERED,
}
"""By id; those of a metric and of a whole plan first, in the order of the columns."""
