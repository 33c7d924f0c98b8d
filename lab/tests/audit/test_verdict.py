"""One thing wrong is enough, and too little to see is not a pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reticent.mechanisms import Flip, OneBitMean
from reticent.plan import Metric, Plan
from reticent_lab.audit import Audit, CoreClient, audit


@pytest.fixture(scope="module")
def sound() -> Audit:
    """An audit that has nothing to complain about."""
    metrics = (
        Metric("saves", OneBitMean(1, 100), Flip("0.2")),
        Metric("opens", OneBitMean(1, 100), Flip("0.2")),
    )
    plan = Plan("audited", 1, 3600, 3600, metrics)
    return audit(plan, client=CoreClient("1"), reports=20_000, rounds=3)


def test_nothing_wrong_and_enough_to_see_is_sound(sound: Audit) -> None:
    assert (sound.verdict, sound.sound, sound.problems) == ("sound", True, [])
    assert sound.to_dict()["verdict"] == "sound"
    assert sound.notices is not None
    assert sound.notices == max(sound.power["saves"] or 9, sound.power["opens"] or 9) < 1


@pytest.mark.parametrize("part", ["exact", "attacks", "checks"])
def test_a_single_fault_anywhere_is_never_sound(sound: Audit, part: str) -> None:
    rows = getattr(sound, part)
    for place, row in enumerate(rows):
        broken = replace(row, holds=False) if part == "checks" else replace(row, above=True)
        unsound = replace(sound, **{part: (*rows[:place], broken, *rows[place + 1 :])})
        assert len(unsound.problems) == 1
        assert (unsound.verdict, unsound.sound) == ("above claim", False)
        assert unsound.to_dict()["sound"] is False


def test_what_could_not_be_looked_at_is_no_fault(sound: Audit) -> None:
    checks = (replace(sound.checks[0], holds=None), *sound.checks[1:])
    assert replace(sound, checks=checks).verdict == "sound"


@pytest.mark.parametrize(
    ("notice", "verdict"), [(1.0, "sound"), (1.01, "not enough reports"), (None, "not enough reports")]
)
def test_every_metric_must_show_twice_its_epsilon(sound: Audit, notice: float | None, verdict: str) -> None:
    blind = tuple(
        replace(attack, notice=notice) if attack.subject == "opens" else attack for attack in sound.attacks
    )
    seen = replace(sound, attacks=blind)
    assert (seen.verdict, seen.sound, seen.problems) == (verdict, verdict == "sound", [])
    assert seen.notices == notice
    broken = replace(seen, checks=(replace(seen.checks[0], holds=False), *seen.checks[1:]))
    assert broken.verdict == "above claim"


def test_too_few_reports_say_so() -> None:
    plan = Plan("audited", 1, 3600, 3600, (Metric("saves", OneBitMean(1, 100), Flip("0.2")),))
    seen = audit(plan, client=CoreClient("1"), reports=1_000, rounds=10)
    assert seen.verdict == "not enough reports"
    assert seen.problems == []


@pytest.mark.parametrize("name", ["plan", "windows-deployment"])
def test_the_plans_of_the_examples(name: str) -> None:
    """Several metrics, groups, cohorts and segments, in one audit each."""
    plan = Plan.load(Path("examples") / f"{name}.toml")
    assert audit(plan, client=CoreClient("1"), reports=2_000, rounds=3).problems == []
