"""No better plan is missed, and every figure that is promised is one that the plan keeps."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from math import ceil, exp, floor, inf, log, log10
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from reticent.device import Policy
from reticent.errors import ParameterError
from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent_collector.cli.root import reticent as command
from reticent_collector.estimates import cumulative, expected_average_half_width
from reticent_collector.privacy.card import privacy_card
from reticent_lab.crowd import Crowd
from reticent_lab.design import (
    WINDOWS,
    Figure,
    Proposal,
    QuantileGoal,
    Question,
    ValueSpread,
    plan_text,
    proposals,
    reasons,
    suggest,
)
from reticent_lab.design.search import PlanShape, is_allowed, metrics_of, plan_of
from reticent_lab.fleet import VectorisedFleet
from reticent_lab.simulate import simulate

MOST = 2.0  # ε of a metric, by the default policy


def spread_of(random: Random) -> ValueSpread:
    """Values of 28 days: most people do nothing on most days, a few do much."""
    draws = np.random.default_rng(random.randrange(2**32))
    daily = draws.random((28, 400)) < random.uniform(0.1, 0.9)
    values = daily * draws.lognormal(random.uniform(2, 6), random.uniform(0.3, 1.2), (28, 400))
    by_days = {}
    for days in (1, 7, 28):
        totals = np.sort(values.reshape(28 // days, days, 400).sum(axis=1), axis=None)
        by_days[days] = totals, np.full(len(totals), 1 / len(totals))
    return ValueSpread(by_days)


def figure_of(random: Random, number: int, kinds: list[str], is_open: bool) -> Figure:
    name, kind = f"m{number}", random.choice(kinds)
    goal = None if is_open else Fraction(random.randrange(5, 200), 1000)
    if kind == "mean":
        spread = spread_of(random) if random.random() < 0.5 else None
        size = spread.mean(1) if spread else 100.0
        top = None if spread else Fraction(random.choice([1, 60, 3600]))
        scale = Fraction(size) if spread else top
        return Figure(name, max_value=top, spread=spread, half_width=goal and 2 * goal * (scale or 1))
    if kind == "flag":
        return Figure(name, "flag", half_width=goal)
    labels = tuple(f"label {place}" for place in range(random.randrange(2, 12)))
    if kind == "split":
        return Figure(name, "split", labels=labels, max_value=Fraction(60), half_width=goal and 60 * goal)
    return Figure(name, "choice", labels=labels, half_width=goal)


def question_of(random: Random, count: int, kinds: list[str], pers: tuple[int, ...]) -> Question:
    promise, limits = random.choice([("constant", (0.2, 8)), ("window", (0.1, 3)), ("year", (1, 80))])
    is_open = random.random() < 0.5
    return Question(
        tuple(figure_of(random, number, kinds, is_open) for number in range(count)),
        devices=int(10 ** random.uniform(3, 7)),
        promise=promise,  # type: ignore[arg-type]
        limit=Fraction(f"{exp(random.uniform(*map(log, limits))):.3g}"),
        per=random.choice(pers),
        name="tried",
    )


def single(question: Question) -> tuple[float, float]:
    """
    The least loss that reaches the goal, and the narrowest interval, by trying all there is for one metric.

    Rounds, windows and ranges one by one; epsilons of three digits by halving, since losses grow and half-widths fall
    with them.
    """
    (figure,) = question.figures
    least, narrowest = inf, inf
    for days, asked_as in product(question.rounds, ways_to_ask(figure)):
        tops = [figure.max_value * days] if figure.max_value else []
        if figure.spread is not None:
            tops = figure.spread.ranges(days, "")
        cuts = [figure.spread.cut(days, top) if figure.spread is not None else 0.0 for top in tops]
        windows = [w for w in WINDOWS if w % days == 0 and (w % question.per == 0 or question.per % w == 0)]
        for window in windows if question.promise != "constant" else [0]:
            one = partial(tried, question, days, window, list(map(float, tops)), cuts, asked_as)
            most = halved(lambda epsilon, one=one: one(epsilon)[0] < inf)
            if most is None:
                continue
            most = three_digits(most, floor)
            narrowest = min(narrowest, one(most)[1])
            if figure.half_width is not None and one(most)[1] <= figure.half_width:
                goal = float(figure.half_width)
                under = halved(lambda epsilon, one=one, goal=goal: one(epsilon)[1] > goal) or 0.001
                least = min(least, one(min(most, three_digits(under * 1.0005, ceil)))[0])
    return least, narrowest


def three_digits(number: float, rounded: Callable[[float], int]) -> float:
    """A number as epsilons of plans are: of three digits, rounded down or up."""
    digit = 10.0 ** (floor(log10(number)) - 2)
    return rounded(number / digit * (1 + (1e-9 if rounded is floor else -1e-9))) * digit


def halved(holds: Callable[[float], bool]) -> float | None:
    """The largest epsilon for which something holds that holds for all smaller ones."""
    low, high = log(0.001), log(MOST)
    if not holds(0.001):
        return None
    if holds(MOST):
        return MOST
    while high - low > 0.0005:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(exp(middle)) else (low, middle)
    return exp(low)


def ways_to_ask(figure: Figure) -> list[tuple[int, str]]:
    """How many means, or none and how a split is answered."""
    if figure.kind == "mean":
        return [(1, "")]
    bits = [1 << power for power in range(5) if 1 << power <= len(figure.labels)] + [len(figure.labels) + 1]
    answers = ['"subset"', '"hadamard-bit"', *(f'"d-bit-flip"\nbits = {count}' for count in bits)]
    return [(len(figure.labels), ""), *((0, f"mechanism = {answer}\n") for answer in answers)]


def tried(
    question: Question,
    days: int,
    window: int,
    tops: list[float],
    cuts: list[float],
    asked_as: tuple[int, str],
    epsilon: float,
) -> tuple[float, float]:
    """The loss of a plan (infinite if it is not allowed), and its half-width with the best range."""
    (figure,) = question.figures
    means, mechanism = asked_as
    if mechanism.startswith('mechanism = "subset"') and not window:
        return inf, inf
    text = (
        f'[plan]\nname = "p"\nversion = 1\nround = "{days}d"\n'
        + (f'[answers]\nkind = "sampled"\nwindow = "{window}d"\n' if window else "")
        + (
            ""
            if means < 2
            else f"[groups.g]\nmetrics = {[f'm{place}' for place in range(means)]}\nmax_total = 1\n"
        )
    )
    flip = "" if window else "flip = 0.2\n"
    for place in range(means or 1):
        text += f"[metrics.m{place}]\nmax_value = 1\nepsilon = {epsilon:.6g}\n{flip}{mechanism}"
        text += 'kind = "mean"\n' if means else f'kind = "split"\nlabels = {list(figure.labels)}\n'
    plan = Plan.from_toml(text)
    card = privacy_card(plan)
    loss = {"constant": card.constant, "window": card.window, "year": card.any_history}[
        question.promise
    ] or 0.0
    refused = Policy().problems(plan)
    reports = question.devices // question.segments
    confidence = 1 - (1 - question.confidence) / max(1, means)
    part = expected_average_half_width(
        plan.metrics[0], reports, question.per // days, confidence, plan.answers
    )
    width = min((top * part + cut) / days for top, cut in zip(tops, cuts, strict=True))
    return (inf if refused or loss > question.limit else loss), width


def check_single(seed: int, pers: tuple[int, ...], is_quick: bool) -> None:
    random = Random(seed)
    question = question_of(random, 1, ["mean", "mean", "split"], pers)
    if is_quick:
        question = replace(question, round_days=random.choice(question.rounds))
    least, narrowest = single(question)
    found = proposals(question)
    if narrowest == inf:
        assert not found
        return
    best = found[0]
    if least < inf:
        assert best.met
        assert best.loss <= 1.01 * least
    else:
        assert best.parts[0].half_width <= 1.01 * narrowest
    check(best)


def check(best: Proposal) -> None:
    """It is allowed, and its half-widths are the plan's own."""
    question, shape = best.question, best.shape
    plan = Plan.from_toml(plan_text(suggest(question)))
    card = privacy_card(plan)
    loss = {"constant": card.constant, "window": card.window, "year": card.any_history}[question.promise]
    assert loss is not None
    assert loss <= question.limit
    assert not Policy().problems(plan)
    answering = max(1, question.devices // question.segments * plan.asked // len(plan.metrics))
    assert [metric.name for part in best.parts for metric in part.metrics] == [*plan.by_name]
    for part in best.parts:
        metric = plan.by_name[part.metric.name]
        rounds = question.per // shape.round_days
        confidence = 1 - (1 - question.confidence) / len(part.metrics)
        half_width = expected_average_half_width(metric, answering, rounds, confidence, plan.answers)
        days = shape.round_days if metric.kind in ("mean", "split") else 1
        assert part.half_width >= half_width / days * (1 - 1e-12)
        assert part.half_width == pytest.approx(half_width / days + part.clipping)


@pytest.mark.parametrize("seed", range(6))
def test_no_better_plan_of_one_metric_is_missed(seed: int) -> None:
    check_single(seed, (7,), is_quick=True)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 300))
def test_no_better_plan_of_one_metric_is_missed_in_longer_periods(seed: int) -> None:
    check_single(seed, (1, 7, 28, 84), is_quick=False)


def check_several(seed: int, tries: int, pers: tuple[int, ...]) -> None:
    """No plan by chance within the limits is better, nor one near the best."""
    random = Random(seed)
    question = question_of(random, random.randrange(2, 4), ["mean", "flag", "choice", "split"], pers)
    found = proposals(question)
    if not found:
        return
    best = found[0]
    check(best)
    for _ in range(tries if question.promise != "constant" else tries // 8):  # those take long
        near = random.choice(found)
        asked = random.randrange(1, len(question.figures) + 1)
        parts = []
        for part in near.parts:
            scale = random.choice([1, random.uniform(0.7, 1.5)])
            epsilon = Fraction(f"{min(MOST, max(0.001, float(part.epsilon) * scale)):.3g}")
            settings = dict(part.metric.mechanism.settings)
            if settings and len(part.metrics) == 1 and random.random() < 0.3:
                settings = {"mechanism": "hadamard-bit"}
            days = near.shape.round_days
            top = Fraction(part.metric.max_value)
            if part.figure.spread is not None and random.random() < 0.5:
                top = random.choice(part.figure.spread.ranges(days, ""))
            shape = replace(near.shape, asked=len(near.parts) if near.shape.apart else asked)
            parts.append((part.figure, metrics_of(part.figure, shape, "tried", settings, epsilon, top), top))
        other = other_of(near, shape, parts)
        if other is None:
            continue
        loss, factor, met = other
        if best.met and all(figure.half_width is not None for figure in question.figures):
            assert not met or loss >= 0.99 * best.loss
        else:
            assert not met or any(figure.half_width is None for figure in question.figures)
            assert factor >= 0.99 * best.factor


def other_of(near: Proposal, shape: PlanShape, parts: list[Any]) -> tuple[float, float, bool] | None:
    """Loss, width and success of a plan by chance; None if it is not allowed."""
    question, days = near.question, near.shape.round_days
    plan = plan_of(question, shape, [(figure, metrics) for figure, metrics, _ in parts])
    card = privacy_card(plan)
    loss = {"constant": card.constant, "window": card.window, "year": card.any_history}[
        question.promise
    ] or 0.0
    if loss > question.limit or Policy().problems(plan):
        return None
    answering = max(1, question.devices // question.segments * shape.asked // len(parts))
    factors, met = [], True
    for figure, metrics, top in parts:
        confidence = 1 - (1 - question.confidence) / len(metrics)
        width = expected_average_half_width(
            metrics[0], answering, question.per // days, confidence, plan.answers
        )
        size = 1.0
        if figure.is_amount:
            cut = figure.spread.cut(days, top) if figure.spread is not None else 0.0
            width = (width + cut) / days
            size = figure.spread.mean(days) / days if figure.spread is not None else float(figure.max_value)
        met &= figure.half_width is None or width <= figure.half_width
        factors.append(width / float(size if figure.half_width is None else figure.half_width))
    return loss, max(factors), met


@pytest.mark.parametrize("seed", range(2))
def test_no_better_plan_of_several_metrics_is_missed(seed: int) -> None:
    check_several(seed, 8, (7,))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
def test_no_better_plan_of_several_metrics_is_missed_in_longer_periods(seed: int) -> None:
    check_several(seed, 400, (7, 28))


MINUTES = Figure("minutes", unit="minute", max_value=Fraction(1440))


def test_the_best_window_for_a_year_is_not_the_first_that_will_do() -> None:
    best = suggest(Question((MINUTES,), 50_000, "year", Fraction(12))).best
    for days in (7, 28, 84):
        text = f'[plan]\nname = "p"\nversion = 1\nround = "1d"\n[answers]\nkind = "sampled"\nwindow = "{days}d"\n'
        touched = -(-364 // days) + 1
        text += f'[metrics.m]\nkind = "mean"\nmax_value = 1440\nepsilon = {12 / touched:.3g}\n'
        plan = Plan.from_toml(text)
        other = expected_average_half_width(plan.metrics[0], 50_000, 7, 0.95, plan.answers)
        assert best.parts[0].half_width < 1.005 * other
    assert best.parts[0].half_width < 0.6 * expected_average_half_width(
        Plan.from_toml(text.replace("84d", "7d").replace("epsilon = 2", "epsilon = 0.226")).metrics[0],
        50_000,
        7,
    )


def test_more_devices_a_larger_loss_or_a_wider_goal_never_make_it_worse() -> None:
    figure = Figure("minutes", max_value=Fraction(1440), half_width=Fraction(20))
    losses = [
        suggest(Question((figure,), n, "year", Fraction(54))).best.loss for n in (50_000, 100_000, 400_000)
    ]
    assert losses == sorted(losses, reverse=True)
    widths = [
        suggest(Question((MINUTES,), 50_000, "constant", Fraction(loss))).best.parts[0].half_width
        for loss in ("0.5", "1", "2")
    ]
    assert widths == sorted(widths, reverse=True)


def test_weeks_are_chosen_for_a_weekly_mean_of_people_who_come_now_and_then() -> None:
    """A week's total asks once for what days ask seven times: better, whatever the range cuts off."""
    draws = np.random.default_rng(1)
    daily = (draws.random((28, 2000)) < 0.15) * draws.exponential(3600, (28, 2000))
    by_days = {}
    for days in (1, 7):
        totals = np.sort(daily.reshape(28 // days, days, 2000).sum(axis=1), axis=None)
        by_days[days] = totals, np.full(len(totals), 1 / len(totals))
    figure = Figure("seconds", unit="second", spread=ValueSpread(by_days))
    widths = {}
    for days in (None, 1):
        best = suggest(Question((figure,), 50_000, "year", Fraction(54), round_days=days)).best
        widths[days] = best.parts[0].half_width
        assert best.shape.round_days == (days or 7)
    assert widths[None] < 0.8 * widths[1]


def test_what_a_range_cuts_off_is_in_the_half_width() -> None:
    values = np.array([0.0] * 90 + [10.0] * 9 + [1000.0])
    spread = ValueSpread({1: (values, np.full(100, 0.01))})
    assert spread.mean(1) == pytest.approx(10.9)
    assert spread.cut(1, Fraction(100)) == pytest.approx(9.0)
    assert spread.clipped(1, Fraction(100)) == pytest.approx(0.01)
    (part,) = suggest(
        Question((Figure("a", spread=spread),), 1000, "constant", Fraction(1), per=1)
    ).best.parts
    kept = np.minimum(values, float(part.metric.max_value)).mean()
    assert part.clipping == pytest.approx(10.9 - kept)
    assert part.half_width == pytest.approx(part.of_round + 10.9 - kept)


def test_a_sealed_histogram_gives_a_range() -> None:
    """Shares below 0 are 0, and the last bucket counts at its upper edge: never too narrow a range."""
    spread = ValueSpread.sealed([0, 10, 100, 1000], [0.9, 0.11, -0.01], 1)
    assert spread.cut(1, Fraction(100)) == 0
    assert spread.cut(1, Fraction(10)) == pytest.approx(45 * 0.11 / 1.01)
    whole = ValueSpread.sealed([0, 10, 100], [0.5, 0.5], 1)
    assert whole.mean(1) == pytest.approx(0.5 * 5 + 0.5 * 100)
    best = suggest(Question((Figure("a", spread=spread),), 100_000, "constant", Fraction(1), per=1)).best
    assert 10 < best.parts[0].metric.max_value <= 100


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--metric a,mean", "range"),
        ("--metric a,mean,range=x", "x"),
        ("--metric a,flag,goal=60%", "share below 1/2"),
        ("--metric a,choice", "labels"),
        ("--metric a,histogram,range=3", "buckets"),
        ("--metric a,mode", "kind"),
        ("--metric a,flag,colour=red", "colour=red"),
        ("--metric a,flag --metric a,flag", "different names"),
        ("--metric A,flag", "lower-case"),
        ("--metric Crashed?,mean", "lower-case"),
        ("--metric a,flag --year 1 --constant 1", "one promise"),
        ("--metric a,flag --year 0", "above 0"),
        ("--metric a,flag --per 9d", "whole weeks"),
        ("--metric a,flag --round month", "divides"),
        ("--metric a,flag --segments 0", "segments"),
        ("--metric a,flag --year 0.0001", "epsilon of 0.001"),
        ("--metric a,mean,pilot=nothing.csv", "bucket_low"),
        ("--metric a,quantile,level=90%,goal=2", "values"),
        ("--metric a,quantile,level=90%,goal=2,range=5", "range"),
        ("--metric a,split,range=9", "labels"),
        ("--metric a,split,labels=x|y", "add up to"),
    ],
)
def test_what_is_wrong_is_said(arguments: str, says: str) -> None:
    result = CliRunner().invoke(command, ["design", "--devices", "1000", *arguments.split()])
    assert result.exit_code in (1, 2), result.output
    assert says in str(result.output) + str(result.exception)


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(command, ["design", *arguments])
    assert result.exit_code in (0, 3), result.output
    return result


def test_the_command_writes_a_plan_that_plan_check_reads(tmp_path: Path) -> None:
    file, pilot = tmp_path / "plan.toml", tmp_path / "pilot.csv"
    pilot.write_text("segment,bucket_low,bucket_high,value\n,0,10,0.8\n,10,60,0.15\n,60,1440,0.05\n")
    result = run(
        "--metric", f"minutes,mean,unit=minute,pilot={pilot},goal=10", "--metric", "crashed,flag,goal=2%",
        "--metric", "load,histogram,unit=share,edges=0|1|2|8,goal=3%", "--devices", "300000", "--round", "day",
        "--out", str(file),
    )  # fmt: skip
    assert result.exit_code == 0
    assert result.output.startswith(file.read_text())
    plan = Plan.load(file)
    assert [metric.kind for metric in plan.metrics] == ["mean", "flag", "histogram"]
    for line in (
        "# minutes: ±",
        "wanted ±10",
        "crashed: ±",
        "Why:",
        "Alternative 1",
        "Alternative 2",
        "clips",
    ):
        assert line in result.output
    checked = CliRunner().invoke(command, ["plan", "check", str(file), "--devices", "300000", "--json"])
    assert checked.exit_code == 0
    both = json.loads(run(*result_arguments(pilot), "--json").output)
    of_round = {name: each["half_width_of_round"] for name, each in both["metrics"].items()}
    shown = json.loads(checked.output)
    plans = shown.get("plans", [shown])
    assert {name: each["half_width"] for name, each in plans[0]["metrics"].items()} == of_round


def result_arguments(pilot: Path) -> list[str]:
    return [
        "--metric", f"minutes,mean,unit=minute,pilot={pilot},goal=10", "--metric", "crashed,flag,goal=2%",
        "--metric", "load,histogram,unit=share,edges=0|1|2|8,goal=3%", "--devices", "300000", "--round", "day",
    ]  # fmt: skip


def test_a_goal_that_is_out_of_reach_ends_with_what_to_give_up() -> None:
    arguments = [
        "--metric",
        "minutes,mean,unit=minute,range=1440,goal=10",
        "--devices",
        "50000",
        "--year",
        "12",
    ]
    result = run(*arguments)
    assert result.exit_code == 3
    assert "NOT the wanted ±10" in result.output
    ways = json.loads(run(*arguments, "--json").output)["give_up"]
    assert ways[0].startswith("minutes ±")
    (devices,) = (int(way.split()[0].replace(",", "")) for way in ways if "devices" in way)
    assert run(*arguments[:2], "--devices", str(devices), "--year", "12").exit_code == 0
    assert run(*arguments[:2], "--devices", str(devices * 9 // 10), "--year", "12").exit_code == 3


@pytest.mark.parametrize(("promise", "limit"), [("year", 54), ("constant", 1)])
def test_a_quantile_lies_between_its_edges_as_often_as_is_promised(promise: Any, limit: int) -> None:
    """The interval that the collector prints, from the reports of devices: within the goal in 12 of 12 fleets."""
    draws = np.random.default_rng(7)
    values = np.sort(
        (draws.random(4000) < 0.4) * np.minimum(80_000, draws.pareto(0.8, 4000) * 20_000)
    ).round()
    spread = ValueSpread({1: (values, np.full(len(values), 1 / len(values)))})
    level, devices = Fraction(9, 10), 150_000
    figure = QuantileGoal.figure("wait", "ms", level, Fraction(20_000), spread)
    low, high = figure.edges[1:3]
    assert high - low <= 40_000
    assert (
        (values <= float(figure.quantile.value)).mean()
        >= level
        > (values < float(figure.quantile.value)).mean()
    )
    answer = suggest(Question((figure,), devices, promise, Fraction(limit)))
    assert answer.best.met
    assert f"90 % quantile known to lie in {low} to {high} ms" in plan_text(answer)
    plan = Plan.from_toml(plan_text(answer))
    window = plan.window_of(3000)
    first = window.first + window.rounds if window else 3000
    for seed in range(12):
        fleet = VectorisedFleet(plan, devices, seed)
        held = {"wait": np.random.default_rng(seed).choice(values, devices).astype(np.int64)}
        counts = {}
        for number in range(first, first + 7):
            (of_round,) = fleet.counts(number, held).values()
            counts[number] = of_round["wait"]
        quantile = cumulative(plan.metrics[0], counts, plan=plan).quantile(0.9)
        assert low <= quantile.lower <= quantile.upper <= high


def test_a_goal_that_no_value_is_near_is_refused() -> None:
    values = np.array([0.0] * 50 + [1000.0] * 50)
    spread = ValueSpread({1: (values, np.full(100, 0.01))})
    with pytest.raises(ParameterError, match="some values are within"):
        QuantileGoal.figure("wait", "ms", Fraction(1, 2), Fraction(10), spread)


def split_of(labels: int, promise: str, limit: int, goal: Fraction | None = None) -> Question:
    names = tuple(f"app {number}" for number in range(labels))
    figure = Figure("apps", "split", "minute", goal, Fraction(1440), labels=names)
    return Question((figure,), 100_000, promise, Fraction(limit), name="tried")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "promise", "limit", "apart"), [(12, "window", 1, False), (2, "constant", 2, True)]
)
def test_a_split_is_one_answer_or_a_mean_for_each_label(
    labels: int, promise: str, limit: int, apart: bool
) -> None:
    """Whichever is narrower at the same promise; the other is an alternative, and both plans are whole."""
    answer = suggest(split_of(labels, promise, limit))
    plan = Plan.from_toml(plan_text(answer))
    assert [metric.kind for metric in plan.metrics] == (["mean"] * labels if apart else ["split"])
    assert [group.max_total for group in plan.groups] == (
        [1440 * plan.round_seconds // 86_400] if apart else []
    )
    ways = {one.what.split()[2]: one.proposal for one in answer.others if one.what.startswith("apps as")}
    (other,) = ways.values()
    assert other.shape.apart != apart
    assert other.factor > answer.best.factor
    for proposal in (answer.best, other):
        assert is_allowed(proposal.question, proposal.plan)


def test_a_subset_has_the_size_that_suits_its_epsilon() -> None:
    plan = Plan.from_toml(plan_text(suggest(split_of(5, "window", 2))))
    text = [line for line in plan.text.splitlines() if not line.startswith("size")]
    assert len(text) < len(plan.text.splitlines())
    assert plan.metrics == Plan.from_toml("\n".join(text)).metrics


def test_the_limit_for_life_is_used_up_where_it_is_the_tighter_one() -> None:
    """Five means with a joint limit: their loss for life counts all of them, that of the promise hardly two."""
    best = suggest(split_of(5, "constant", 5)).best
    assert best.shape.apart
    assert 0.99 * 12 < best.card.lifetime <= 12


def test_no_smaller_epsilon_reaches_the_goal() -> None:
    figure = Figure("seconds", max_value=Fraction(3600), half_width=Fraction("136.8"))
    best = suggest(Question((figure,), 10_421, "window", Fraction("0.685"), per=84)).best
    assert best.met
    text = plan_text(suggest(best.question)).replace(
        f"epsilon = {float(best.parts[0].epsilon):g}", f"epsilon = {float(best.parts[0].epsilon) - 0.001:g}"
    )
    plan = Plan.from_toml(text)
    assert plan.metrics[0].mechanism.epsilon < best.parts[0].epsilon
    days = best.shape.round_days
    smaller = expected_average_half_width(plan.metrics[0], 10_421, 84 // days, 0.95, plan.answers)
    assert smaller / days > 136.8


def test_half_widths_of_a_split_are_never_narrower_than_simulated() -> None:
    """Devices with all of their time in one label: the worst there is, as less than half of the answers name it."""
    answer = suggest(split_of(3, "window", 1))
    plan = Plan.from_toml(plan_text(answer))
    part, days = answer.best.parts[0], answer.best.shape.round_days
    time = np.zeros((plan.answers.window, 500), dtype=np.int64)
    values = {name: time + (place == 0) * 1440 * days for place, name in enumerate(plan.recorded)}
    crowd = Crowd.of(values, 100_000)
    (windows,) = simulate(plan, crowd, repetitions=4, seed=3).windows.values()
    assert windows.truth[0, 0] == 1440 * days
    assert float(windows.half_width.max()) / days == pytest.approx(part.half_width, rel=0.02)
    assert part.half_width >= float(windows.half_width.mean(axis=0).max()) / days * 0.999


def test_a_plan_is_as_good_in_each_segment() -> None:
    whole = suggest(Question((MINUTES,), 10_000)).best
    parts = suggest(Question((MINUTES,), 40_000, segments=4)).best
    assert parts.parts[0].half_width == whole.parts[0].half_width


def test_reasons_say_what_other_windows_cost() -> None:
    lines = reasons(suggest(Question((MINUTES,), 50_000, "year", Fraction(12))))
    assert any(line.startswith("With windows of ") for line in lines)


def test_a_question_without_metrics_is_refused() -> None:
    with pytest.raises(ParameterError):
        Question((), 1000)


@pytest.mark.parametrize(
    ("promise", "window", "allowed", "refused"),
    [
        ("constant", 0, (1, 2.0), (1, 2.1)),  # max_epsilon 2
        ("constant", 0, (3, 2.0), (4, 2.0)),  # max_lifetime 12, which counts each answer twice
        ("window", 28, (2, 1.5), (2, 1.51)),  # max_window 3
        ("year", 7, (2, 0.5), (2, 0.51)),  # max_year 54, of 54 windows
    ],
)
def test_a_plan_that_a_device_refuses_by_default_is_not_allowed(
    promise: Any, window: int, allowed: tuple[int, float], refused: tuple[int, float]
) -> None:
    """So many flags, each with such an ε: the promise alone would allow them all."""
    question = Question((Figure("a", "flag"),), 100_000, promise, Fraction(1000), per=28)
    answers = Answers(window=window) if window else Answers()

    def plan(flags: int, epsilon: float) -> Plan:
        mechanism, flip = OneBitMean(epsilon, 1), Flip(0 if window else "0.3")
        metrics = (Metric(f"flag_{number}", mechanism, flip, is_flag=True) for number in range(flags))
        return Plan("tried", 1, 86_400, 0, tuple(metrics), answers=answers)

    assert is_allowed(question, plan(*allowed))
    assert not is_allowed(question, plan(*refused))
    assert not is_allowed(replace(question, limit=Fraction("0.9")), plan(*allowed)), "beyond the promise"


def test_values_of_hours_are_not_taken_for_days(tmp_path: Path) -> None:
    file, plan = tmp_path / "hours.csv", tmp_path / "plan.toml"
    file.write_text("user,time,value\na,2026-01-31T08:00:00Z,5\na,2026-01-31T20:00:00Z,5\n")
    plan.write_text(plan_text(suggest(Question((MINUTES,), 1000, round_days=1))))
    for arguments in (
        ["design", "--devices", "1000", "--metric", f"a,mean,values={file}"],
        ["simulate", str(plan), "--values", str(file)],
    ):
        result = CliRunner().invoke(command, arguments)
        assert result.exit_code == 1
        assert "add them up" in result.output + str(result.exception)
