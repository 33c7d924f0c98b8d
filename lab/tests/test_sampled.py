"""What the laboratory says about plans with sampled answers: refused where they are not supported."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.errors import ParameterError
from reticent.mechanisms import OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent_lab.fleet import SdkFleet, VectorisedFleet

PLAN = Plan(
    "sampled", 1, 3600, 3600,
    (Metric("first", OneBitMean(1, 60)), Metric("second", OneBitMean(2, 60))),
    answers=Answers(window=4, metrics=1),
)  # fmt: skip


def test_cells_of_remembered_answers_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"answers: expected remembered answers, .*, got sampled"):
        VectorisedFleet(PLAN, 3, seed=1).cells("first", np.zeros(3, dtype=np.int64))


def test_every_sdk_device_reports_once_in_a_window() -> None:
    fleet = SdkFleet(PLAN, 50, seed=3)
    window = PLAN.window_of(1000)
    assert window is not None
    ids = []
    for number in range(window.first, window.first + window.rounds):
        reports = list(fleet.reports(number, {"first": [60] * 50, "second": [0] * 50}))
        assert 0 < len(reports) < 50
        ids += [report.id for report in reports]
    assert len(set(ids)) == len(ids) == 50


def test_rounds_before_the_first_window_are_refused() -> None:
    with pytest.raises(ParameterError, match="round: expected one of a window"):
        next(SdkFleet(PLAN, 1, seed=3).reports(3, {}))
