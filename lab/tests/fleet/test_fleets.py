"""The vectorised fleet answers bit for bit as the SDK does, and counts as a collector would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.device import Answer, answer
from reticent.errors import ParameterError
from reticent.mechanisms import Buckets, DBitFlip, Flip, Grid, HadamardBit, OneBitMean
from reticent.plan import Answers, Group, Metric, Plan, Segment
from reticent.reports import from_packed, to_packed
from reticent_collector.counts import HistogramCounts, MeanCounts, count_reports
from reticent_collector.estimates import estimate
from reticent_lab.fleet import GRAN_TURISMO_SPORT, SdkFleet, VectorisedFleet
from reticent_lab.fleet.draws import HashDraws
from reticent_lab.fleet.memo import high_word

BUCKETS = Buckets.even(60, 8)


def plan_of(*metrics: Metric, **rest: Any) -> Plan:
    return Plan("vector", 1, 60, 60, metrics, **rest)


PLAN = plan_of(
    Metric("mean", OneBitMean(1, 60), Flip("0.1")),
    Metric("steps", OneBitMean(2, grid=Grid([0, 7, 30, 60]))),
    Metric("hadamard", HadamardBit(1, BUCKETS), Flip("0.2")),
    Metric("tight", DBitFlip(1, BUCKETS, 3)),
    Metric("paper", DBitFlip(2, BUCKETS, 3, "paper"), Flip("0.1")),
    Metric("every", DBitFlip(2, BUCKETS, 8)),
    segments=(Segment("os", ("a", "b")),),
)


# The same bits, over random plans

epsilons = st.sampled_from(["0.001", "0.1", "1", "3", "20"])
flips = st.sampled_from(["0", "0.01", "0.2", "0.49"])
numbers = st.one_of(
    st.integers(1, 90), st.fractions(Fraction(1, 7), 50, max_denominator=7), st.integers(1, 2**33)
)


def rising(numbers_: list[Fraction | int]) -> list[Fraction | int]:
    return [0, *sorted(set(numbers_))]


uneven = st.lists(numbers, min_size=1, max_size=6).map(rising)
grids = st.one_of(
    uneven.map(Grid),
    st.builds(lambda step, steps: Grid.even(step * steps, step), numbers, st.integers(1, 80)),
)
buckets = st.one_of(
    uneven.filter(lambda edges: len(edges) > 2).map(Buckets),
    st.builds(Buckets.even, numbers, st.integers(2, 40)),
)


@st.composite
def mechanisms(draw: st.DrawFn) -> OneBitMean | HadamardBit | DBitFlip:
    epsilon, kind = draw(epsilons), draw(st.sampled_from(["mean", "mean", "hadamard", "dbit", "dbit"]))
    if kind == "mean":
        return OneBitMean(epsilon, grid=draw(grids))
    over = draw(buckets)
    if kind == "hadamard":
        return HadamardBit(epsilon, over)
    width = draw(st.one_of(st.integers(1, min(4, len(over))), st.just(len(over))))
    return DBitFlip(
        epsilon, over, width, draw(st.sampled_from(["tight", "paper"])), draw(st.text("ab/", max_size=3))
    )


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    chosen = draw(st.lists(mechanisms(), min_size=1, max_size=4))
    metrics = tuple(Metric(f"m{n}", each, Flip(draw(flips))) for n, each in enumerate(chosen))
    means = [metric for metric in metrics if metric.kind == "mean"]
    groups: tuple[Group, ...] = ()
    if len(means) >= 2 and draw(st.booleans()):
        total = sum(Fraction(metric.max_value) for metric in means)
        share = draw(st.fractions(Fraction(1, 20), 1, max_denominator=20))
        limit = total * share if draw(st.booleans()) else Fraction(max(1, int(total * share)))
        groups = (
            Group(
                "g", tuple(metric.name for metric in means), limit if limit.denominator > 1 else int(limit)
            ),
        )
    segments = (Segment("os", ("a", "b")), Segment("kind", ("x",)))[: draw(st.integers(0, 2))]
    return Plan("random", draw(st.integers(1, 9)), 60, 60, metrics, groups, segments)


def values_of(metric: Metric) -> st.SearchStrategy[int]:
    """In range, at and around every point or edge, and out of range."""
    mechanism = metric.mechanism
    points = mechanism.points
    around = sorted({int(point) + way for point in points for way in (-1, 0, 1)})
    top = int(metric.max_value)
    return st.one_of(
        st.integers(0, top),
        st.sampled_from(around),
        st.integers(-5, top + 5),
        st.sampled_from([-(2**63), 2**63 - 1]),
    )


def given_to_devices(
    plan: Plan, devices: int, data: st.DataObject
) -> tuple[dict[str, list[int]], list[list[int]]]:
    """Values of every device, and the codes of its tags."""
    columns = {
        metric.name: data.draw(st.lists(values_of(metric), min_size=devices, max_size=devices))
        for metric in plan.metrics
    }
    codes = [
        [data.draw(st.integers(0, len(each.tags) - 1)) for each in plan.segments] for _ in range(devices)
    ]
    return columns, codes


def agrees(
    plan: Plan, fleet: VectorisedFleet, number: int, columns: dict[str, list[int]], codes: list[list[int]]
) -> list[Answer]:
    """Hold all that a fleet says about a round against its devices, one by one; returns their answers."""
    window = plan.window_of(number)
    expected = []
    for device in range(fleet.devices):
        draws = HashDraws(fleet.seed, fleet.first + device, plan.name, window.start if window else None)
        if window is not None and draws.picked_round(window) != number:
            continue
        own = {name: column[device] for name, column in columns.items()}
        segment = {
            each.name: each.tags[code] for each, code in zip(plan.segments, codes[device], strict=True)
        }
        expected.append(answer(draws, plan, number, own, segment))
    arrays = {name: np.array(column, dtype=np.int64) for name, column in columns.items()}
    tags = np.array(codes, dtype=np.uint8).reshape(fleet.devices, len(plan.segments))
    reports = [each.report for each in expected]
    assert list(fleet.reports(number, arrays, tags)) == reports
    assert fleet.packed(number, arrays, tags) == to_packed(reports, plan)
    assert fleet.counts(number, arrays, tags) == count_reports(reports, plan)
    for metric in plan.metrics:
        places = range(plan.offset(metric.name), plan.offset(metric.name) + metric.bits)
        assert fleet.bits(metric.name, number, arrays).tolist() == [
            [report.bit(place) for place in places] for report in reports
        ]
        if window is None:
            classes = enumerate(fleet.cells(metric.name, arrays).tolist())
            assert all(expected[place].visited.get(metric.name, one) == one for place, one in classes)
    return expected


@settings(max_examples=100, deadline=None)
@given(plan=plans(), data=st.data())
def test_every_report_is_bit_for_bit_that_of_the_sdk(plan: Plan, data: st.DataObject) -> None:
    """Random plans (all mechanisms, uneven and fractional points, groups, segments) and values."""
    devices, seed = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 2**70))
    first, number = data.draw(st.integers(0, 2**40)), data.draw(st.integers(0, 2**53 - 1))
    columns, codes = given_to_devices(plan, devices, data)
    fleet = VectorisedFleet(plan, devices, seed, first)
    assert len(agrees(plan, fleet, number, columns, codes)) == devices


@st.composite
def sampled_plans(draw: st.DrawFn) -> Plan:
    plan = draw(plans())
    asked = draw(st.one_of(st.none(), st.integers(1, len(plan.metrics))))
    metrics = tuple(replace(metric, flip=Flip(0)) for metric in plan.metrics)
    return replace(plan, metrics=metrics, answers=Answers(draw(st.integers(1, 5)), asked))


@settings(max_examples=100, deadline=None)
@given(plan=sampled_plans(), data=st.data())
def test_every_sampled_report_is_bit_for_bit_that_of_the_sdk(plan: Plan, data: st.DataObject) -> None:
    """All rounds of a window, in any order: each device answers one of them; then a round of another window."""
    devices, seed = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 2**70))
    first, number = data.draw(st.integers(0, 2**40)), data.draw(st.integers(10_000, 2**53 - 10))
    window = plan.window_of(number)
    assert window is not None
    rounds = data.draw(st.permutations(range(window.first, window.first + window.rounds)))
    columns, codes = given_to_devices(plan, devices, data)
    fleet = VectorisedFleet(plan, devices, seed, first)
    answers = [each for number in rounds for each in agrees(plan, fleet, number, columns, codes)]
    assert len(answers) == devices
    assert all(len(each.visited) == plan.asked for each in answers)
    agrees(plan, fleet, window.first - 1, columns, codes)


@settings(max_examples=50, deadline=None)
@given(plan=plans(), data=st.data())
def test_every_report_about_some_of_the_metrics_is_bit_for_bit_that_of_the_sdk(
    plan: Plan, data: st.DataObject
) -> None:
    """Remembered answers to some of the metrics: in every round those that a device was first asked."""
    plan = replace(plan, answers=Answers(metrics=data.draw(st.integers(1, len(plan.metrics)))))
    devices, seed = data.draw(st.integers(1, 12)), data.draw(st.integers(0, 2**70))
    columns, codes = given_to_devices(plan, devices, data)
    fleet = VectorisedFleet(plan, devices, seed, data.draw(st.integers(0, 2**40)))
    rounds = data.draw(st.lists(st.integers(0, 2**53 - 1), min_size=2, max_size=2))
    one, other = (agrees(plan, fleet, number, columns, codes) for number in rounds)
    assert [each.visited.keys() for each in one] == [each.visited.keys() for each in other]
    assert all(len(each.visited) == plan.asked for each in one)


def mixed(devices: int) -> dict[str, np.ndarray]:
    return {metric.name: (np.arange(devices) * 7 + place) % 61 for place, metric in enumerate(PLAN.metrics)}


def test_blocks_and_threads_change_nothing() -> None:
    """More devices than two blocks: each equals the same device in a fleet of its own."""
    devices = 70_001
    values = mixed(devices)
    whole = VectorisedFleet(PLAN, devices, seed=4)
    batch = from_packed(whole.packed(9, values), PLAN)
    for place in (0, 32_767, 32_768, 65_535, 65_536, 70_000):
        alone = VectorisedFleet(PLAN, 1, seed=4, first=place)
        own = {name: column[place : place + 1] for name, column in values.items()}
        assert list(alone.reports(9, own)) == [batch[place]]
    assert whole.counts(9, values) == count_reports(batch, PLAN)


def test_blocks_and_threads_change_nothing_in_sampled_rounds() -> None:
    """The same where a third of the devices answer, four metrics each."""
    devices = 210_001
    metrics = tuple(replace(metric, flip=Flip(0)) for metric in PLAN.metrics)
    plan = replace(PLAN, metrics=metrics, answers=Answers(3, 4))
    values, tags = mixed(devices), (np.arange(devices) % 3).astype(np.uint8)[:, None]
    whole, window = VectorisedFleet(plan, devices, seed=4), plan.window_of(10_000)
    assert window is not None
    batch = from_packed(whole.packed(10_000, values, tags), plan)
    picked = [
        device
        for device in range(0, devices, 10)
        if HashDraws(4, device, plan.name, window.start).picked_round(window) == 10_000
    ]
    own_reports = []
    for device in [*picked[:20], *picked[-20:]]:
        alone = VectorisedFleet(plan, 1, seed=4, first=device)
        own = {name: column[device : device + 1] for name, column in values.items()}
        own_reports += alone.reports(10_000, own, tags[device : device + 1])
    assert len(own_reports) == 40
    by_id = {report.id: report for report in batch}
    assert all(by_id[report.id] == report for report in own_reports)
    assert whole.counts(10_000, values, tags) == count_reports(batch, plan)


def test_a_large_range_needs_no_table() -> None:
    """Buckets up to 2^33: searched, not looked up; compared with the mechanism's own index."""
    edges = Buckets([0, 1, 2**20 + 1, Fraction(2**33, 3), 2**33])
    metric = Metric("wide", DBitFlip(1, edges, 4))
    values = np.array([0, 1, 2**20, 2**20 + 1, 2**33 // 3, 2**33 // 3 + 1, 2**33, 2**40])
    found = VectorisedFleet(plan_of(metric), len(values), seed=1).cells("wide", values)
    assert found.tolist() == [edges.index(min(int(value), 2**33)) for value in values]


SHORT = plan_of(
    Metric("a", OneBitMean(1, 12)),
    Metric("b", OneBitMean(1, grid=Grid([0, 2, Fraction(13, 3), 9]))),
    Metric("c", OneBitMean(1, 20, 5)),
    Metric("alone", OneBitMean(1, 20)),
    groups=(Group("g", ("a", "b", "c"), Fraction(41, 4)),),
)
LONG = plan_of(
    *(Metric(name, OneBitMean(1, 2**40)) for name in ("a", "b")),
    groups=(Group("g", ("a", "b"), Fraction(2**39) + Fraction(1, 3)),),
)


@pytest.mark.parametrize("plan", [SHORT, LONG], ids=["in 64 bits", "products near 2^122"])
def test_groups_are_scaled_exactly(plan: Plan) -> None:
    """Two thousand devices, most above the joint limit, against the SDK's rational arithmetic."""
    generator, devices = np.random.default_rng(3), 2000
    values = {
        metric.name: generator.integers(-1, int(metric.max_value) + 2, devices) for metric in plan.metrics
    }
    fleet = VectorisedFleet(plan, devices, 5)
    found = {name: fleet.cells(name, values).tolist() for name in values}
    for device in range(devices):
        own = {name: int(of[device]) for name, of in values.items()}
        visited = answer(HashDraws(5, device, plan.name), plan, 1, own).visited
        assert visited == {name: of[device] for name, of in found.items()}


def test_groups_are_scaled_exactly_in_sampled_rounds() -> None:
    """Those who answer are some of the fleet: each is scaled with values and an alpha of its own."""
    plan = replace(SHORT, answers=Answers(2))
    generator, devices = np.random.default_rng(3), 400
    values = {
        metric.name: generator.integers(-1, int(metric.max_value) + 2, devices).tolist()
        for metric in plan.metrics
    }
    fleet = VectorisedFleet(plan, devices, 5)
    assert 100 < len(agrees(plan, fleet, 10_000, values, [[]] * devices)) < 300


def test_a_metric_left_out_is_0_and_unsigned_and_small_types_are_taken() -> None:
    fleet = VectorisedFleet(PLAN, 40, seed=2)
    zeros = {metric.name: np.zeros(40, dtype=np.int8) for metric in PLAN.metrics}
    assert fleet.packed(3, {}) == fleet.packed(3, zeros)
    ones = {name: np.ones(40, dtype=bool) for name in zeros}
    assert fleet.packed(3, ones) == fleet.packed(3, {name: np.ones(40, dtype=np.uint64) for name in zeros})


# What is refused


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"mean": np.zeros(4)}, "values of mean: expected 4 whole numbers, got float64"),
        ({"mean": np.zeros(3, dtype=int)}, "values of mean: expected 4 whole numbers"),
        ({"typo": np.zeros(4, dtype=int)}, "metric: expected one of mean, steps"),
    ],
)
def test_values_that_are_none_are_refused(values: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        VectorisedFleet(PLAN, 4, seed=1).packed(1, values)


@pytest.mark.parametrize("tags", [np.full((4, 1), 3, np.uint8), np.zeros((4, 2), np.uint8), np.zeros((4, 1))])
def test_tags_that_are_none_are_refused(tags: np.ndarray) -> None:
    with pytest.raises(ParameterError, match=r"tags: expected uint8\[4, 1\]"):
        VectorisedFleet(PLAN, 4, seed=1).packed(1, {}, tags)


FINE = Metric("m", OneBitMean(1, grid=Grid([0, Fraction(1, 2**61), 2])))
TWICE = (Group("g", ("mean",), 3), Group("h", ("mean",), 2))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: VectorisedFleet(PLAN, 4, seed=1).packed(2**53, {}), "round"),
        (lambda: VectorisedFleet(PLAN, 0, seed=1), "devices"),
        (lambda: VectorisedFleet(plan_of(FINE), 4, seed=1), "common denominator"),
        (lambda: VectorisedFleet(plan_of(*PLAN.metrics, groups=TWICE), 4, seed=1), "at most one group"),
    ],
)
def test_rounds_sizes_and_plans_out_of_range_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


# The law


def test_the_share_of_ones_is_that_of_the_sdk_with_real_secrets() -> None:
    """
    Each bit's share of ones against devices with the real keyed function, at the same values.

    Two binomial shares of 4,000 differ by more than 5.6 standard errors once in 5e7; 18 bits, 3 values: the
    false-alarm rate is below 2e-6. Seeds are fixed, so this does not flicker.
    """
    devices = 4000
    fleets = VectorisedFleet(PLAN, devices, 7), SdkFleet(PLAN, devices, seed=7)
    for value in (0, 20, 60):
        values, shares = dict.fromkeys(PLAN.by_name, np.full(devices, value)), []
        for fleet in fleets:
            reports = list(fleet.reports(0, values))
            bits = [[report.bit(place) for report in reports] for place in range(PLAN.bits)]
            shares.append(np.mean(bits, axis=1))
        assert (np.abs(shares[0] - shares[1]) < 5.6 * sqrt(2 * 0.25 / devices)).all()
    steps = PLAN.offset("steps")
    for wrong in (1.5, 3.0):  # epsilon 2, at the top: another epsilon would be noticed
        assert abs(shares[0][steps] - OneBitMean(wrong, 60).probability_of_one(60)) > 5.6 * sqrt(
            0.25 / devices
        )


def test_without_flips_a_device_that_stays_repeats_itself() -> None:
    fleet, values = VectorisedFleet(PLAN, 500, seed=3), mixed(500)
    assert (fleet.bits("steps", 1, values) == fleet.bits("steps", 2, values)).all()
    assert (fleet.bits("mean", 1, values) != fleet.bits("mean", 2, values)).any()


def test_estimates_of_a_fleet_hold_its_truth() -> None:
    """Six estimates at 1 - 1e-7, simultaneous per histogram: a false alarm once in a million."""
    devices = 100_000
    values = GRAN_TURISMO_SPORT.scaled(60).values(devices, 1, np.random.default_rng(5))[0]
    column = {metric.name: values for metric in PLAN.metrics}
    (counts,) = VectorisedFleet(PLAN, devices, seed=11).counts(3, column).values()
    shares = np.histogram(values, np.linspace(0, 60, 9))[0] / devices
    for metric in PLAN.metrics:
        found = estimate(metric, counts[metric.name], confidence=1 - 1e-7)
        assert isinstance(counts[metric.name], MeanCounts if metric.kind == "mean" else HistogramCounts)
        numbers_ = [found] if metric.kind == "mean" else found.buckets
        truths = [values.mean()] if metric.kind == "mean" else shares
        assert all(
            number.lower <= truth <= number.upper for number, truth in zip(numbers_, truths, strict=True)
        )


# The integer arithmetic underneath


words64 = st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 2**32 - 1, 2**32, 2**64 - 1]))


@given(st.lists(st.tuples(words64, words64), min_size=1, max_size=20))
def test_the_high_word_of_a_product_is_exact(pairs: list[tuple[int, int]]) -> None:
    words, factors = (np.array(column, dtype=np.uint64) for column in zip(*pairs, strict=True))
    exact = [word * factor >> 64 for word, factor in pairs]
    assert high_word(words, factors).tolist() == exact
    assert high_word(words, factors.astype(object)).tolist() == exact


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
def test_values_of_every_type_are_clamped(kind: type[np.integer]) -> None:
    ends = np.array([np.iinfo(kind).min, 0, 1, 60, np.iinfo(kind).max], dtype=kind)
    before = ends.copy()
    inside = np.array([min(max(int(value), 0), 60) for value in ends])
    fleet = VectorisedFleet(PLAN, 5, seed=1)
    for metric in PLAN.metrics:
        assert fleet.cells(metric.name, ends).tolist() == fleet.cells(metric.name, inside).tolist()
    assert (ends == before).all()


@pytest.mark.parametrize(
    "grid",
    [
        Grid.even(60), Grid.even(60, 20), Grid.even(60, Fraction(20, 3)), Grid([0, 1, 2, 50, 60]),
        Grid([0, Fraction(1, 3), 59, Fraction(121, 2)]), Grid.even(2**40, 2**38), Grid([0, Fraction(1, 2)]),
    ],
    ids=str,
)  # fmt: skip
def test_cells_are_those_of_the_grid_for_every_whole_value(grid: Grid) -> None:
    """Every value from below to above the range (a step apart where it is long), for 25 devices."""
    metric = Metric("m", OneBitMean(1, grid=grid))
    fleet = VectorisedFleet(plan_of(metric), 25, seed=1)
    alphas = [HashDraws(1, device, "vector").alpha(metric) for device in range(25)]
    step = max(1, int(grid.max_value) // 70)
    for value in range(-step, int(grid.max_value) + 3 * step, step):
        inside = min(max(value, 0), grid.max_value)
        expected = [grid.cell(inside, alpha) for alpha in alphas]
        assert fleet.cells("m", np.full(25, value)).astype(int).tolist() == expected


@pytest.mark.parametrize("tags", [1, 2, 20, 117])
@pytest.mark.parametrize("bits", [1, 9])
def test_counts_are_those_of_counting_one_by_one(tags: int, bits: int) -> None:
    """Up to 30,000 groups of tag and cohort, which are counted in tables of other widths."""
    metrics = [Metric("bits", DBitFlip(1, Buckets.even(60, 9), bits))] if tags > 1 else []
    plan = plan_of(
        Metric("mean", OneBitMean(1, 60)),
        *metrics,
        segments=(Segment("os", tuple(f"t{tag}" for tag in range(tags))),) if tags > 2 else (),
    )
    fleet = VectorisedFleet(plan, 3000, seed=tags)
    values = {metric.name: np.arange(3000) % 61 for metric in plan.metrics}
    codes = (np.arange(3000) % tags).astype(np.uint8)[:, None] if plan.segments else None
    assert fleet.counts(7, values, codes) == count_reports(list(fleet.reports(7, values, codes)), plan)
