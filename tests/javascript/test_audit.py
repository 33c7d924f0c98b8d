"""`reticent audit --client` on whole devices in JavaScript."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from tests.javascript.conftest import PACKAGE
from tests.shared.plans import COMMAND

from reticent.plan import Plan
from reticent_lab.audit import Audit, CommandClient, audit

EXAMPLE = Plan.load(Path(__file__).parents[2] / "examples" / "plan.toml")
SAVES = (Path(__file__).parents[2] / "examples" / "saves.toml").read_text()
GRACE = SAVES.replace("[metrics", 'grace = "12h"\n\n[metrics', 1)
CHOICE = Plan.from_toml(GRACE + COMMAND)
SAMPLED = Plan.from_toml(GRACE.replace("flip = 0.2", "") + '[answers]\nkind = "sampled"\nwindow = "1d"\n')


def run(node: str, plan: Plan, lives: int) -> Audit:
    with closing(CommandClient([node, str(PACKAGE / "audit.mjs")])) as client:
        return audit(plan, client=client, lives=lives, rounds=2)


@pytest.mark.parametrize("plan", [EXAMPLE, CHOICE, SAMPLED], ids=["segments", "choice", "sampled"])
def test_devices_in_javascript_send_what_the_rules_say(node: str, plan: Plan) -> None:
    result = run(node, plan, lives=1)
    assert result.problems == []
    assert result.sound
    assert result.reports > 30


def any_plan(seed: int) -> Plan:
    """A plan of any kind: rounds, grace, windows, expiry, tags, limits, and one to four metrics."""
    draw = Random(seed)
    hours = draw.choice((1, 6, 24, 168))
    is_sampled = draw.random() < 0.5
    text = f'[plan]\nname = "any-{seed}"\nversion = 1\nround = "{hours}h"\n'
    text += f'grace = "{hours * draw.randint(1, 4)}h"\n' if draw.random() < 0.5 else ""
    text += "expires = 2027-02-03\n" if draw.random() < 0.5 else ""
    flip = "" if is_sampled else f"flip = {draw.choice((0, 0.1, 0.2))}\n"
    means = []
    kinds = [
        draw.choice(("mean", "mean", "flag", "choice", "histogram", "split"))
        for _ in range(draw.randint(1, 4))
    ]
    for number, kind in enumerate(kinds):
        text += f'[metrics.m{number}]\nkind = "{kind}"\nepsilon = {draw.choice((0.3, 1, 1.9))}\n{flip}'
        labels = [f"label {place}" for place in range(draw.randint(2, 9))]
        if kind == "mean":
            means.append(f"m{number}")
            text += f"max_value = 60\nstep = {draw.choice((60, 60, 20, 5))}\n"
        elif kind == "histogram":
            text += f"edges = {draw.choice(([0, 1, 5, 60], [0, 10, 20, 30, 40], [0, 7, 60]))}\n"
            text += "absent = true\n" if draw.random() < 0.5 else ""
        elif kind in ("choice", "split"):
            text += f"labels = {labels}\n" + ("max_value = 60\n" if kind == "split" else "")
        if kind == "choice" and draw.random() < 0.3:
            text += 'pick = "first"\n'
    if len(means) > 1:
        text += f"[groups.g]\nmetrics = {means}\nmax_total = 70\n"
    text += '[segments]\nos = ["linux", "macos"]\n' if draw.random() < 0.5 else ""
    if is_sampled:
        text += f'[answers]\nkind = "sampled"\nwindow = "{hours * draw.choice((1, 2, 4, 7))}h"\n'
        text += f"metrics = {draw.randint(1, len(kinds))}\n"
    return Plan.from_toml(text)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
def test_no_honest_device_is_condemned(node: str, seed: int) -> None:
    plan = any_plan(seed)
    for result in (audit(plan, lives=2, rounds=1), run(node, plan, lives=2)):
        assert result.problems == []
        assert result.sound, result.undecided


@pytest.mark.soak
def test_two_hundred_lives_of_each_family(node: str) -> None:
    assert run(node, EXAMPLE, lives=200).sound
