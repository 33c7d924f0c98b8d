"""transitions.json is what the rules say, and each rule shows in some row."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from spec import interpreter
from spec.lives import LIVES, PLANS

SOURCE = Path(interpreter.__file__).read_text()
DOCUMENT = json.loads(interpreter.FILE.read_text())


def test_the_file_is_what_the_rules_say() -> None:
    assert interpreter.FILE.read_text() == interpreter.text(), "run: python -m spec.interpreter --write"


def test_there_are_enough_transitions() -> None:
    assert len([row for life in DOCUMENT["lives"] for row in life["rows"] if "then" in row]) >= 1500


def test_lives_that_differ_in_values_only_send_the_same_rounds() -> None:
    lives = {life["name"]: life["rows"] for life in DOCUMENT["lives"]}
    for name in ("twin", "twin-killed", "twin-daily"):
        unused, used = (
            [(row["at"], [json.loads(body)["round"] for body in row["then"]["sent"]])
             for row in lives[f"{name}-{which}"] if "then" in row]
            for which in ("unused", "used")
        )  # fmt: skip
        assert unused == used
        assert any(rounds for _, rounds in used)


def test_the_next_answer_is_given_when_status_says() -> None:
    tried = 0
    for _, _, events in LIVES:
        state = interpreter.State()
        for event in events:
            known = {**event, "plan_text": PLANS[event["plan"]]} if "plan" in event else event
            state, then = interpreter.step(state, known, event["at"])
        due = then.get("next")
        if due is None or event["at"] >= due - 1:
            continue
        before, _ = interpreter.step(state, {"do": "report"}, due - 1)
        after, _ = interpreter.step(before, {"do": "pause"}, due + 1)  # it notes that the program runs
        known_rounds = {report.round for report in state.kept.reports}
        interpreter.end_pause(after, due + 1, "asked")
        after.kept.pauses = before.kept.pauses
        interpreter.answer_due(after, due + 1)
        length = interpreter.plan_length(state)
        assert due // length - 1 in {report.round for report in after.kept.reports} - known_rounds
        tried += 1
    assert tried > 50


EVENTS_OF = {name: events for name, _, events in LIVES}

BROKEN = {
    "a gap is answered without its spell": (
        "return bool(rounds) and is_answerable(",
        "return True or is_answerable(",
        "spell-gap-2",
    ),
    "grace is one round": ("max(7 * DAY, 3 * length)", "length", "spell-days-2"),
    "a value is presence": ('NO_CALL = ("open", *VALUES, ', 'NO_CALL = ("open", ', "twin-killed-used"),
    "a held window keeps its first cost": (
        "window.loss = max(window.loss, window_loss)",
        "pass",
        "windows-costlier-version",
    ),
    "damage counts today's limit": (
        "lost = {**state.kept.largest,",
        "lost = {**state.policy,",
        "damage-truncate-lower-limit",
    ),
    "damage counts nothing": ("lost=lost,", "lost=None,", "damage-truncate-default"),
    "a choice is lost under a rule": (
        'state.kept.choice = event["choice"]',
        'state.kept.choice = None if state.silenced else event["choice"]',
        "rule-DO_NOT_TRACK-denied",
    ),
    "what has left is forgotten": ("if not kept.has_told:", "if True:", "consent-granted-unset"),
    "what was not sent is kept": ("if not kept.has_told:", "if False:", "consent-local-unset"),
    "every 4xx is final": ('and given.get("code") in FINAL_CODES', "", "answer-400"),
    "expiry a day later": ("now >= plan.expires", "now >= plan.expires + DAY", "expiry"),
    "the year never renews": ("if window.end > start - YEAR", "if True", "windows-year"),
    "windows are not limited": (
        "return most is None or plan.round_loss",
        "return True or plan.round_loss",
        "windows-renew",
    ),
    "a yes covers every epoch": ('or agreed["epoch"] != asked["epoch"]', "", "forget-chosen"),
    "a yes covers higher losses": (
        'or asked["loss"] > agreed["loss"]',
        "",
        "windows-more-metrics-asks-again",
    ),
    "a resumed round is answered": (
        "pause[1] = max(pause[0], current_round(state, now))",
        "pause[1] = pause[0]",
        "rule-DO_NOT_TRACK-later",
    ),
    "a plan is taken up at once": (
        "first = current_round(state, now) + 1\n",
        "first = current_round(state, now)\n",
        "default-granted-unset",
    ),
    "rounds begun before forget are answered": (
        "    kept.epoch += 1\n    kept.silent_through = max(kept.silent_through, current_round(state, now))",
        "    kept.epoch += 1",
        "on-its-way-forget-accepted",
    ),
    "forget keeps the epoch": ("    kept.epoch += 1\n", "", "on-its-way-forget-accepted"),
    "local is sent": (
        'status = "local" if is_local else "waiting"',
        'status = "waiting"',
        "consent-unset-local",
    ),
    "local is counted": (
        "if not is_local:\n            for question",
        "if True:\n            for question",
        "consent-unset-local",
    ),
    "a failed report is not sent again": (" or now >= report.surely_from", "", "pause-waiting"),
    "a closed report waits on": (
        'report.state == "waiting" and report.closes <= now',
        "False",
        "on-its-way-pause-failed",
    ),
    "new questions at any time": (
        "too_soon = asks_new and",
        "too_soon = False and",
        "version-more-2-default",
    ),
    "28 weeks for new questions": (
        "min(rounds * plan.length, rounds * DAY)",
        "rounds * plan.length",
        "version-weekly-rounds",
    ),
    "a year's cost is not asked for": (
        'above(plan.round_loss * windows_in_year, "max_year")',
        "False",
        "policy-sampled-costly",
    ),
    "epsilon is free where answers are sampled": (
        '[above(metric.epsilon, "max_epsilon") for metric in plan.metrics]',
        '[above(metric.epsilon, "max_epsilon") for metric in plan.metrics if not plan.window]',
        "policy-sampled-large-epsilon",
    ),
    "an older or changed plan is taken": (
        "elif plan.fingerprint != newest.fingerprint:",
        "elif False:",
        "version-base-changed-chosen",
    ),
    "refused rounds are answered as empty": ("elif not is_paused(state):", "elif False:", "policy-lowered"),
    "the default wins over the choice": (
        "kept.choice or state.default",
        "state.default",
        "consent-unset-granted",
    ),
    "a rule does not silence": (
        '        start_pause(state, now, "rule")',
        "        pass",
        "rule-DO_NOT_TRACK-later",
    ),
}
"""A rule as it is, a wrong one, and a life that shows the difference."""


def rows_by(source: str, life: str) -> list[Any] | None:
    """The rows of a life by these rules; none if they contradict themselves."""
    module = types.ModuleType("spec.broken")
    module.__file__ = interpreter.__file__
    module.__package__ = "spec"
    sys.modules["spec.broken"] = module  # dataclasses look their module up
    exec(compile(source, "broken", "exec"), module.__dict__)  # noqa: S102
    try:
        rows: list[Any] = module.live(EVENTS_OF[life], PLANS)
    except (ValueError, KeyError):
        return None
    return rows


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_changes_rows(name: str) -> None:
    right, wrong, life = BROKEN[name]
    assert SOURCE.count(right) == 1
    assert rows_by(SOURCE.replace(right, wrong), life) != interpreter.live(EVENTS_OF[life], PLANS)


def test_rules_that_are_read_again_and_not_broken_change_nothing() -> None:
    assert rows_by(SOURCE, "windows-year") == interpreter.live(EVENTS_OF["windows-year"], PLANS)
