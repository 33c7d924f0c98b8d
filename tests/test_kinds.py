"""Choices, flags and values that may be absent: data of a metric, over the mechanisms there are."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from tests.shared.plans import COMMAND, CRASHED, KINDS, KINDS_HEAD, START_MS

from reticent.device import Policy, answer
from reticent.errors import ParameterError, PlanError
from reticent.mechanisms import Buckets, DBitFlip, HadamardBit, OneBitMean
from reticent.plan import Metric, Plan
from reticent.testing import sandbox
from reticent_collector.counts import HistogramCounts, MeanCounts
from reticent_collector.estimates import HistogramEstimate, cumulative, estimate, expectation_maximisation
from reticent_collector.plans import diff, lint
from reticent_collector.privacy.card import plan_html, privacy_card
from reticent_lab.audit import audit
from reticent_lab.fleet import VectorisedFleet
from reticent_lab.fleet.draws import HashDraws
from reticent_lab.simulate import true_values
from reticent_lake.frames import from_frame


def one(text: str) -> Metric:
    return Plan.from_toml(KINDS_HEAD + text).metrics[0]


def test_the_three_kinds_are_metrics_over_known_mechanisms() -> None:
    command, crashed, start = Plan.from_toml(KINDS).metrics
    assert command.mechanism == HadamardBit(1, Buckets(range(4), absent=True))
    assert (command.kind, command.labels, command.pick) == ("choice", ("build", "test", "run"), "last")
    assert command.bucket_labels == ("build", "test", "run", "absent")
    assert crashed.mechanism == OneBitMean(1, 1)
    assert (crashed.kind, crashed.bits, crashed.max_value) == ("flag", 1, 1)
    assert start.mechanism == DBitFlip(1, Buckets([0, 100, 1000], absent=True), 1, label="kinds/start_ms")
    assert (start.kind, start.absent, start.bucket_labels) == ("histogram", True, ("", "", "absent"))


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (COMMAND.replace('labels = ["build", "test", "run"]\n', ""), "labels", "the key is missing"),
        (COMMAND.replace('["build", "test", "run"]', '["build"]'), "labels", "2 to 254 different texts"),
        (COMMAND.replace('"run"', '"build"'), "labels", "2 to 254 different texts"),
        (COMMAND.replace('["build", "test", "run"]', '"build"'), "labels", "2 to 254 different texts"),
        (COMMAND.replace('"run"', '"absent"'), "labels", "expected labels of letters"),
        (COMMAND.replace('"run"', '"run\\n"'), "labels", "expected labels of letters"),
        (COMMAND + 'pick = "best"', "pick", 'expected "last" or "first", got "best"'),
        (COMMAND + "max_value = 3", "max_value", "is not a key of a plan"),
        (COMMAND + "absent = true", "absent", "is not a key of a plan"),
        (CRASHED + "max_value = 1", "max_value", "is not a key of a plan"),
        (CRASHED + 'labels = ["a", "b"]', "labels", "is not a key of a plan"),
        (START_MS.replace("true", '"true"'), "absent", "expected true or false"),
        (START_MS + 'pick = "first"', "pick", "is not a key of a plan"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(text: str, place: str, message: str) -> None:
    with pytest.raises(PlanError) as raised:
        Plan.from_toml(KINDS_HEAD + text)
    [problem] = raised.value.problems
    assert problem.where.endswith(f".{place}")
    assert message in problem.message


def test_only_means_share_a_limit() -> None:
    group = '\n[groups.both]\nmetrics = ["crashed", "command"]\nmax_total = 1\n'
    with pytest.raises(PlanError) as raised:
        Plan.from_toml(KINDS_HEAD + COMMAND + CRASHED + group)
    assert [problem.rule for problem in raised.value.problems] == ["group-kind", "group-kind"]


def test_what_a_value_maps_to_is_in_the_digest_and_what_it_is_called_is_not() -> None:
    digests = {
        one(text).digest
        for text in (
            COMMAND,
            COMMAND.replace('"run"', '"fmt"'),
            COMMAND.replace('"build", "test"', '"test", "build"'),
            COMMAND + 'pick = "first"',
            START_MS,
            START_MS.replace("absent = true", "absent = false"),
        )
    }
    assert len(digests) == 6
    assert one(COMMAND + 'pick = "last"').digest == one(COMMAND).digest
    mean = CRASHED.replace('"flag"', '"mean"') + "max_value = 1"
    assert one(CRASHED).digest == one(mean).digest, "a flag is answered as a mean of zeros and ones"


def test_a_metric_that_cannot_be_is_refused() -> None:
    with pytest.raises(ParameterError, match="one for nothing chosen"):
        Metric("command", HadamardBit(1, Buckets(range(3), absent=True)), labels=("build", "test", "run"))
    with pytest.raises(ParameterError, match="one for nothing chosen"):
        Metric("command", HadamardBit(1, Buckets(range(3))), labels=("build", "test"))
    with pytest.raises(ParameterError, match="a mean of values from 0 to 1"):
        Metric("crashed", OneBitMean(1, 2), is_flag=True)


def recorded(plan: str, *calls: tuple[str, object], pick: str = "last") -> dict[str, object]:
    with sandbox(
        Plan.from_toml(plan.replace("flip", f'pick = "{pick}"\nflip', 1)),
        policy=Policy.unlimited(),
        debug=False,
    ) as box:
        for metric, value in calls:
            if metric == "command":
                box.device.choose(metric, value)  # type: ignore[arg-type]
            else:
                box.device.set(metric, value)
        values: dict[str, object] = dict(box.values())
        return values


def test_a_device_keeps_the_choice_that_the_plan_picks() -> None:
    calls = [("command", "test"), ("command", "run"), ("command", "build")]
    assert recorded(KINDS, *calls) == {"command": "build"}
    assert recorded(KINDS, *calls, pick="first") == {"command": "test"}


@pytest.mark.parametrize(("pick", "label"), [("first", "test"), ("last", "run")])
def test_it_counts_across_restarts_of_the_program(pick: Literal["first", "last"], label: str) -> None:
    with sandbox(
        Plan.from_toml(KINDS.replace("flip", f'pick = "{pick}"\nflip', 1)), policy=Policy.unlimited()
    ) as box:
        for choice in ("test", "run"):
            box.device.choose("command", choice)
            assert box.values()  # which brings it into the file
        assert box.values() == {"command": label}


@pytest.mark.parametrize("wrong", ["fmt", "Build", "absent", "", 1, None, True, ["build"]])
def test_what_is_no_label_is_no_choice(wrong: object) -> None:
    assert recorded(KINDS, ("command", wrong)) == {}
    assert recorded(KINDS, ("command", "test"), ("command", wrong)) == {"command": "test"}


def test_a_flag_is_set_or_added_to() -> None:
    with sandbox(Plan.from_toml(KINDS), policy=Policy.unlimited()) as box:
        assert box.values() == {}
        box.device.add("crashed")
        box.device.add("crashed")
        assert box.values() == {"crashed": 1}
        box.device.set("crashed", False)
        assert box.values() == {"crashed": 0}
        box.device.set("crashed", True)
        assert box.values() == {"crashed": 1}


@pytest.mark.parametrize("wrong", [None, float("nan"), "7", object()])
def test_what_is_not_a_number_is_no_value_where_that_can_be_said(wrong: object) -> None:
    assert recorded(KINDS, ("start_ms", wrong)) == {}
    assert recorded(KINDS, ("start_ms", 7), ("start_ms", wrong)) == {"start_ms": 7}
    assert recorded(KINDS, ("start_ms", 0)) == {"start_ms": 0}, "0 is a value"


def test_a_change_of_labels_asks_anew_and_a_flag_is_a_mean_that_goes_by_another_name() -> None:
    before = Plan.from_toml(KINDS)
    relabelled = diff(before, Plan.from_toml(KINDS.replace('"run"', '"fmt"')))
    assert [(change.where, change.message) for change in relabelled.changes] == [
        ("metrics.command", "has other labels: its answers are drawn again")
    ]
    assert relabelled.lifetime_added == privacy_card(before).metrics["command"].lifetime
    first = diff(before, Plan.from_toml(KINDS.replace("epsilon", 'pick = "first"\nepsilon', 1)))
    assert [change.where for change in first.changes] == ["metrics.command", "metrics.command.pick"]
    assert first.new_answers == ("command",)
    zeros = diff(before, Plan.from_toml(KINDS.replace("absent = true\n", "")))
    assert zeros.new_answers == ("start_ms",)
    mean = diff(before, Plan.from_toml(KINDS.replace('"flag"', '"mean"\nmax_value = 1')))
    assert [(change.where, change.message) for change in mean.changes] == [
        ("metrics.crashed.kind", "flag → mean")
    ]
    assert mean.lifetime_added == 0


@pytest.mark.parametrize(
    ("unit", "mixes"),
    [("ms", True), ("millisecond", True), ("%", True), ("MB/s", True), ("frames per second", True), ("°C", True),
     ("second", False), ("hour", False), ("MB", False), ("", False), ("start", False)],
)  # fmt: skip
def test_lint_warns_where_zeros_would_mix_with_what_was_not_measured(unit: str, mixes: bool) -> None:
    without = KINDS_HEAD + START_MS.replace("absent = true", f'unit = "{unit}"')
    rules = {problem.rule: problem.where for problem in lint(Plan.from_toml(without))}
    assert rules.get("zeros") == ("metrics.start_ms.absent" if mixes else None)
    with_absent = without.replace("epsilon", "absent = true\nepsilon")
    assert "zeros" not in {problem.rule for problem in lint(Plan.from_toml(with_absent))}


def test_a_choice_and_a_flag_need_no_unit() -> None:
    assert "unit" not in {problem.rule for problem in lint(Plan.from_toml(KINDS_HEAD + COMMAND + CRASHED))}


def test_a_notebook_shows_what_can_be_answered() -> None:
    page = plan_html(Plan.from_toml(KINDS))
    for words in ("choice, 3 labels", "build, test, run", "yes or no", "0 to 1,000, or absent"):
        assert words in page


# Through the rest of the house


def test_a_fleet_answers_bit_for_bit_as_devices_do_and_estimates_cover_the_truth() -> None:
    plan, random, devices = Plan.from_toml(KINDS), np.random.default_rng(3), 20_000
    values = {
        "command": random.integers(-1, 3, devices),
        "crashed": random.integers(0, 2, devices),
        "start_ms": random.integers(-200, 1200, devices),
    }
    fleet = VectorisedFleet(plan, devices, seed=3)
    for number, report in zip(range(300), fleet.reports(7, values), strict=False):
        own: dict[str, object] = {name: int(column[number]) for name, column in values.items()}
        for name in ("command", "start_ms"):
            if values[name][number] < 0:
                del own[name]
        assert report == answer(HashDraws(3, number, plan.name), plan, 7, own).report
    nothing = next(fleet.reports(8, {}))
    assert nothing == answer(HashDraws(3, 0, plan.name), plan, 8, {}).report, "left out is no value"
    counts, truths = fleet.counts(7, values)[7, ()], true_values(plan, values)
    for metric in plan.metrics:
        estimated = estimate(metric, counts[metric.name], confidence=1 - 1e-6)
        numbers = estimated.buckets if isinstance(estimated, HistogramEstimate) else (estimated,)
        for number, truth in zip(numbers, truths[metric.name], strict=True):
            assert number.lower <= truth <= number.upper
            assert number.kind == metric.kind
    assert truths["command"][-1] == pytest.approx((values["command"] < 0).mean())
    with pytest.raises(ParameterError, match="places of its 3 labels"):
        fleet.counts(7, {"command": np.full(devices, 3)})


def test_labels_and_kinds_are_in_every_form_of_the_table() -> None:
    pytest.importorskip("pyarrow")
    command, crashed, start = Plan.from_toml(KINDS).metrics
    shares = estimate(command, HistogramCounts((250,) * 8, (180, 70, 170, 80, 120, 130, 125, 125)))
    table = shares.to_frame()
    assert table["label"].to_pylist() == ["build", "test", "run", "absent"]
    assert set(table["kind"].to_pylist()) == {"choice"}
    assert table["bucket_low"].null_count == 4
    assert from_frame(table) == shares
    assert str(shares).splitlines()[0].startswith("build: ")
    with pytest.raises(ParameterError, match="a histogram, got a choice"):
        cumulative(command, [HistogramCounts((250,) * 8, (125,) * 8)])
    spread = estimate(start, HistogramCounts((300, 300, 300), (100, 90, 120)))
    with pytest.raises(ParameterError, match="buckets with a name have no neighbours"):
        expectation_maximisation(start, HistogramCounts((300, 300, 300), (100, 90, 120)), smoothing=1)
    assert spread.edges == (0, 100, 1000)
    assert spread.names == ("[0, 100)", "[100, 1000]", "absent")
    assert from_frame(spread.to_frame()) == spread
    flag = estimate(crashed, MeanCounts(1000, 400))
    assert from_frame(flag.to_frame()) == flag
    assert flag.to_frame()["kind"].to_pylist() == ["flag"]


def test_an_audit_finds_devices_sound() -> None:
    """Devices choose labels, and leave out what is absent."""
    checked = audit(Plan.from_toml(KINDS), lives=3, rounds=2, families=("values",))
    assert checked.problems == []
    assert checked.sound
