"""The table [answers]: what is read, where windows lie, what is unwise and what changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from reticent.errors import ParameterError, PlanError
from reticent.losses import compose
from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Answers, Metric, Plan
from reticent_collector.plans import diff, lint
from reticent_collector.plans.linter import lint_succession
from reticent_collector.privacy import joint_limit_loss
from reticent_collector.privacy.card import privacy_card

HEAD = '[plan]\nname = "p"\nversion = 1\nround = "6h"\nowner = "someone"\nexpires = 2099-01-01\n'
METRICS = "".join(
    f'[metrics.{name}]\nkind = "mean"\nunit = "second"\nepsilon = 1\nmax_value = 60\n' for name in "abc"
)
REMEMBERED = HEAD + METRICS
SAMPLED = REMEMBERED + '[answers]\nkind = "sampled"\nwindow = "7d"\n'
ONE = SAMPLED + "metrics = 1\n"

ROUNDS = {"ten minutes": 600, "six hours": 21_600, "a day": 86_400, "a week": 604_800}


def plan_of(round_seconds: int, window: int) -> Plan:
    return Plan("p", 1, round_seconds, 0, (Metric("a", OneBitMean(1, 60)),), answers=Answers(window))


def problems(text: str) -> set[tuple[str, str]]:
    with pytest.raises(PlanError) as caught:
        Plan.from_toml(text)
    return {(problem.where, problem.rule) for problem in caught.value.problems}


def warnings(text: str) -> set[tuple[str, str]]:
    return {(problem.where, problem.rule) for problem in lint(Plan.from_toml(text))}


def test_a_plan_without_the_table_is_remembered() -> None:
    plan = Plan.from_toml(REMEMBERED)
    assert plan.answers == Answers() == Plan.from_toml(REMEMBERED + '[answers]\nkind="remembered"\n').answers
    assert (plan.asked, plan.asked_bytes, plan.window_of(81_652)) == (3, 0, None)


def test_sampled_answers_read_as_written() -> None:
    plan, one = Plan.from_toml(SAMPLED), Plan.from_toml(ONE)
    assert (plan.answers, plan.asked, plan.asked_bytes) == (Answers(28), 3, 0)
    assert (one.answers, one.asked, one.asked_bytes) == (Answers(28, 1), 1, 1)
    assert Plan.from_toml(SAMPLED + "metrics = 3\n").asked_bytes == 0


@pytest.mark.parametrize(("metrics", "size"), [(2, 1), (8, 1), (9, 2), (17, 3)])
def test_the_bitmap_has_a_bit_per_metric(metrics: int, size: int) -> None:
    asked = tuple(Metric(f"m{place}", OneBitMean(1, 60)) for place in range(metrics))
    assert Plan("p", 1, 60, 0, asked, answers=Answers(4, 1)).asked_bytes == size


@pytest.mark.parametrize(
    ("before", "after", "where", "rule"),
    [
        ('"7d"', '"5h"', "answers.window", "range"),
        ('"7d"', '"7h"', "answers.window", "range"),
        ('"7d"', '"a week"', "answers.window", "type"),
        ('window = "7d"\n', "", "answers.window", "missing"),
        ("metrics = 1", "metrics = 0", "answers.metrics", "range"),
        ("metrics = 1", "metrics = 4", "answers.metrics", "range"),
        ("metrics = 1", "metrics = true", "answers.metrics", "range"),
        ("metrics = 1", "metric = 1", "answers.metric", "unknown-key"),
        ('"sampled"', '"fresh"', "answers.kind", "choice"),
        ('kind = "sampled"', "", "answers.window", "conflict"),
        ('kind = "sampled"', 'kind = "remembered"', "answers.window", "conflict"),
        ("epsilon = 1\n", "epsilon = 1\nflip = 0.2\n", "metrics.a.flip", "conflict"),
    ],
)
def test_each_problem_is_named_with_its_place(before: str, after: str, where: str, rule: str) -> None:
    assert before in ONE
    assert (where, rule) in problems(ONE.replace(before, after, 1))


def test_a_broken_metric_is_no_reason_to_complain_about_how_many_are_asked() -> None:
    text = SAMPLED + "metrics = 3\n"
    assert problems(text.replace("epsilon = 1\n", "epsilon = 0\n", 1)) == {("metrics.a.epsilon", "range")}


def test_a_plan_made_by_hand_keeps_the_rules() -> None:
    with pytest.raises(ParameterError):
        replace(plan_of(60, 4), metrics=(Metric("a", OneBitMean(1, 60), Flip("0.2")),))
    with pytest.raises(ParameterError):
        replace(plan_of(60, 4), answers=Answers(4, 2))
    for window, metrics in [(-1, None), (4, 0), (0, 0)]:
        with pytest.raises(ParameterError):
            Answers(window, metrics)


@pytest.mark.parametrize("round_seconds", ROUNDS.values(), ids=ROUNDS)
@pytest.mark.parametrize("length", [1, 4, 28, 1013])
def test_windows_tile_time_and_begin_with_a_round(round_seconds: int, length: int) -> None:
    """Every round from the first window on is in exactly one window, and windows follow one another."""
    plan = plan_of(round_seconds, length)
    origin = next(number for number in range(1000) if plan.round(number).start >= 345_600)
    assert plan.window_of(origin - 1) is None
    expected = first = origin
    for number in range(origin, origin + 3 * length):
        first = expected if number == expected else first
        expected = first + length
        window = plan.window_of(number)
        assert window is not None
        assert (window.first, window.rounds) == (first, length)
        assert window.start == plan.round(first).start


@pytest.mark.parametrize("round_seconds", [600, 21_600, 86_400, 604_800, 4 * 604_800])
def test_weeks_begin_on_monday(round_seconds: int) -> None:
    plan = plan_of(round_seconds, max(1, 604_800 // round_seconds))
    for time in range(0, 60 * 604_800, 777_777):
        now = 1_700_000_000 + time
        span, window = plan.round(plan.round_at(now)), plan.window_of(plan.round_at(now))
        assert window is not None
        assert span.start <= now < span.end
        starts = [window.start, span.start] if round_seconds >= 604_800 else [window.start]
        for start in (datetime.fromtimestamp(start, UTC) for start in starts):
            assert (start.weekday(), start.hour, start.minute, start.second) == (0, 0, 0, 0)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 28])
def test_the_most_windows_that_rounds_touch(length: int) -> None:
    """By brute force over every place that a run of rounds can begin at."""
    plan = plan_of(86_400, length)
    for rounds in range(1, 3 * length + 2):
        touched = max(
            len({plan.window_of(number) for number in range(begin, begin + rounds)})
            for begin in range(1000, 1000 + length)
        )
        assert plan.answers.windows_touched(rounds) == touched


def test_windows_add_up_however_many_there_are() -> None:
    plan = replace(plan_of(60, 1), metrics=(Metric("a", OneBitMean("0.3", 60)),))
    of_year = privacy_card(plan, 500)
    assert of_year.any_history == compose([of_year.window or 0.0] * 500)
    assert privacy_card(plan, 10**9).any_history == pytest.approx(0.3e9)  # at once: it is not added up


@pytest.mark.parametrize("asked", [1, 2, 3])
def test_a_group_loses_what_the_metrics_lose_that_a_report_answers(asked: int) -> None:
    group = '[groups.g]\nmetrics = ["a", "b"]\nmax_total = 60\n'
    card = privacy_card(Plan.from_toml(SAMPLED + f"metrics = {asked}\n" + group))
    of_group = min(asked, 2)
    alike = [OneBitMean(1, 60)] * of_group
    assert card.groups["g"].round == joint_limit_loss(alike, [Flip(0)] * of_group, 60)


def test_unwise_choices_are_named() -> None:
    assert warnings(ONE) == set()
    assert warnings(ONE.replace('"7d"', '"31d"')) == set()
    assert warnings(ONE.replace('"7d"', '"32d"')) == {("answers.window", "long-window")}
    stepped = ONE.replace("max_value = 60\n", "max_value = 60\nstep = 2\n", 1)
    assert warnings(stepped) == {("metrics.a.step", "no-effect")}


def test_the_fingerprint_holds_how_the_plan_is_answered() -> None:
    texts = [REMEMBERED, SAMPLED, ONE, ONE.replace('"7d"', '"1d"')]
    assert len({Plan.from_toml(text).fingerprint for text in texts}) == len(texts)
    all_three = Plan.from_toml(SAMPLED + "metrics = 3\n")
    assert all_three.fingerprint == Plan.from_toml(SAMPLED).fingerprint
    assert Plan.from_toml(REMEMBERED).fingerprint.hex() == (
        "b43afd2a5fd447ff7752fdc3bec76cb9d6d28cc9abf74abfed400a53267b569d"
    ), "the fingerprint of a remembered plan has no other bytes than before there were sampled ones"


@pytest.mark.parametrize("text", [REMEMBERED, SAMPLED, ONE.replace('"7d"', '"1d"')])
def test_how_a_plan_is_answered_needs_a_new_version(text: str) -> None:
    old = Plan.from_toml(ONE)
    (problem,) = lint_succession(old, Plan.from_toml(text))
    assert problem.where == "plan.version"
    assert lint_succession(old, Plan.from_toml(text.replace("version = 1", "version = 2"))) == []


def test_a_diff_says_what_another_way_of_answering_means() -> None:
    remembered, one = Plan.from_toml(REMEMBERED), Plan.from_toml(ONE)
    begins = diff(remembered, one)
    assert ([change.where for change in begins.changes], begins.lifetime_added) == (["answers.kind"], 0)
    ends = diff(one, remembered)
    assert ends.new_answers == ("a", "b", "c")
    assert ends.lifetime_added == 6
    assert "once their window has ended" in ends.changes[0].message
    longer = Plan.from_toml(ONE.replace('"7d"', '"14d"').replace("metrics = 1", "metrics = 2"))
    changes = diff(one, longer).changes
    assert [change.where for change in changes] == ["answers.window", "answers.metrics"]
    assert changes[0].message.startswith("28 → 56 rounds")
    assert changes[1].message.startswith("1 → 2 metrics per report")


def test_a_sampled_metric_that_changes_has_no_memo_to_draw_anew() -> None:
    after = diff(Plan.from_toml(ONE), Plan.from_toml(ONE.replace("epsilon = 1\n", "epsilon = 2\n", 1)))
    assert [(change.where, bool(change.new_answers), change.loss) for change in after.changes] == [
        ("metrics.a", False, 0.0)
    ]
